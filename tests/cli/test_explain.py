"""`focusctx explain`: the event in words, from a trace or from a saved Result."""

import json

from helpers import histories

WHOLE = ("--budget", 0, "--target", 0, "--whole-steps")
"""Options for the paper's rule."""


def test_text(focusctx, scripted, trace):
    code, out, err = focusctx("explain", trace, *WHOLE)
    assert (code, err) == (0, "")
    assert "it failed before" in out
    assert "look({})" in out, "what a step did"
    assert "comes back with: a sketch that cites s_3, or a pin rule" in out
    assert 'restore("s_7")' in out
    (theory,) = [line for line in out.splitlines() if "certificate" in line]
    assert theory.endswith("see docs/theory.md")


def test_text_with_levels(focusctx, say, tmp_path):
    say("Step: read on | Depends on: [s_2.3]")
    log = "".join(f"line {number}: all quiet in the eastern wing\n" for number in range(40))
    path = tmp_path / "run.json"
    path.write_text(json.dumps([*histories.run(1), *(m for n in (2, 3, 4) for m in histories.step(n, log))]))
    code, out, _ = focusctx("explain", path, "--budget", 10, "--target", 900)
    assert code == 0
    assert "target 900" in out.splitlines()[0]
    shown = next(line for line in out.splitlines() if "shown: " in line)
    assert "s_2.3" in shown
    assert "comes back with: a larger target, or a sketch that cites all of s_2" in out


def test_text_of_several(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps(histories.run(5))] * 2))
    _, out, _ = focusctx("explain", path, *WHOLE)
    assert f"{path} line 2:" in out


def test_a_page(focusctx, scripted, trace, tmp_path):
    target = tmp_path / "report.html"
    code, out, err = focusctx("explain", trace, *WHOLE, "--out", target)
    assert (code, out) == (0, "")
    assert err == f"focusctx: wrote {target}; open it in a browser\n"
    assert target.read_text().startswith("<!doctype html>")


def test_a_saved_result_needs_no_draft(focusctx, scripted, trace, tmp_path):
    _, saved, _ = focusctx("compress", trace, *WHOLE, "--json")
    _, fresh, _ = focusctx("explain", trace, *WHOLE)
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
    _, saved, _ = focusctx("compress", trace, *WHOLE, "--json")
    path = tmp_path / "mixed.jsonl"
    path.write_text(saved + json.dumps(histories.run(1)))
    code, out, _ = focusctx("explain", path)
    assert code == 0
    assert out.index("2 dropped") < out.index("nothing dropped")


def test_a_draft_that_fails_is_a_warning(focusctx, say, trace):
    say("no")
    code, out, err = focusctx("explain", trace, *WHOLE)
    assert code == 0
    assert out.startswith("not compressed:")
    assert err.startswith(f"focusctx: warning: {trace} not compressed:")


def test_what_a_draft_says_cannot_steer_the_terminal(focusctx, say, trace):
    say("Step: \x1b]0;owned\x07 \u202efinish | Depends on: [s_2]")
    for command in ("explain", "compress"):
        _, out, err = focusctx(command, trace, *WHOLE)
        assert "owned" in out + err
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err)
