"""`focusctx explain`: the event in words, from a trace or from a saved Result."""

import json

from helpers import histories


def test_text(focusctx, scripted, trace):
    code, out, err = focusctx("explain", trace, "--budget", 0, "--target", 0)
    assert (code, err) == (0, "")
    assert "it failed before" in out
    assert "certificate" in out


def test_text_of_several(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps(histories.run(5))] * 2))
    _, out, _ = focusctx("explain", path, "--budget", 0, "--target", 0)
    assert f"{path} line 2:" in out


def test_a_page(focusctx, scripted, trace, tmp_path):
    target = tmp_path / "report.html"
    code, out, err = focusctx("explain", trace, "--budget", 0, "--target", 0, "--out", target)
    assert (code, out) == (0, "")
    assert err == f"focusctx: wrote {target}; open it in a browser\n"
    assert target.read_text().startswith("<!doctype html>")


def test_a_saved_result_needs_no_draft(focusctx, scripted, trace, tmp_path):
    _, saved, _ = focusctx("compress", trace, "--budget", 0, "--target", 0, "--json")
    _, fresh, _ = focusctx("explain", trace, "--budget", 0, "--target", 0)
    asked = len(scripted.prompts)
    path = tmp_path / "result.json"
    path.write_text(saved)
    code, out, _ = focusctx("explain", path)
    assert code == 0
    assert out == fresh
    assert len(scripted.prompts) == asked
    focusctx("explain", path, "--out", tmp_path / "report.html")
    assert "it failed before" in (tmp_path / "report.html").read_text()


def test_saved_results_and_traces_may_mix(focusctx, scripted, trace, tmp_path):
    _, saved, _ = focusctx("compress", trace, "--budget", 0, "--target", 0, "--json")
    path = tmp_path / "mixed.jsonl"
    path.write_text(saved + json.dumps(histories.run(1)))
    code, out, _ = focusctx("explain", path)
    assert code == 0
    assert out.index("2 dropped") < out.index("nothing dropped")


def test_a_draft_that_fails_is_a_warning(focusctx, say, trace):
    say("no")
    code, out, err = focusctx("explain", trace, "--budget", 0, "--target", 0)
    assert code == 0
    assert out.startswith("not compressed:")
    assert err.startswith(f"focusctx: warning: {trace} not compressed:")


def test_what_a_draft_says_cannot_steer_the_terminal(focusctx, say, trace):
    say("Step: \x1b]0;owned\x07 \u202efinish | Depends on: [s_2]")
    for command in ("explain", "compress"):
        _, out, err = focusctx(command, trace, "--budget", 0, "--target", 0)
        assert "owned" in out + err
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err)
