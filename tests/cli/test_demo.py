"""`focusctx demo`: the main job, end to end, with no key and no network."""

import json
from importlib.resources import files

from focusctx import Focus, FocusConfig
from focusctx.invariants import violations
from focusctx.tokens import Counter

DEMO = json.loads(files("focusctx.cli").joinpath("demo_trace.json").read_text("utf-8"))["messages"]


def test_it_runs(focusctx):
    code, out, err = focusctx("demo")
    assert (code, err) == (0, "")
    for said in ("s_21", "pinned", "dropped", "saved", "focusctx explain my_trace.json", "--draft openai:"):
        assert said in out


def test_the_sketches_keep_what_the_rest_of_the_task_needs(focusctx):
    needed = ("s_8", "s_9", "s_12", "s_16", "s_19")  # both pages of contacts, member ids, venue, the mail
    failed = ("s_2", "s_11", "s_17")  # failures not to repeat
    noise = ("s_5", "s_6", "s_20")
    fates = decisions(focusctx)
    assert {fates[span] for span in needed} <= {"kept", "excerpt", "record"}
    assert {fates[span] for span in failed} == {"rescued"}, "there is room for them where no line about others is due"
    assert {fates[span] for span in noise} == {"dropped"}
    fates = decisions(focusctx, "--target", 3600)
    assert {fates[span] for span in needed} == {"kept"}
    assert {fates[span] for span in failed} == {"rescued"}, "there is room for them"
    assert {fates[span] for span in noise} <= {"dropped", "record"}


def decisions(focusctx, *options):
    """Return the column of decisions, by step."""
    code, out, _ = focusctx("demo", *options)
    assert code == 0
    return {row.split()[0]: row.split()[3] for row in out.splitlines() if row.startswith("s_")}


def test_it_runs_without_a_language_model(focusctx):
    code, out, _ = focusctx("demo", "--draft", "offline")
    assert code == 0
    assert "offline" in out


def test_it_writes_the_page(focusctx, tmp_path):
    target = tmp_path / "report.html"
    code, out, _ = focusctx("demo", "--out", target)
    assert code == 0
    assert str(target) in out
    text = target.read_text()
    assert "Edda Thorne" in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_history_is_legal_and_large_enough():
    result = Focus("offline", config=FocusConfig.paper()).compress(DEMO)
    assert violations(DEMO, "chat_completions") == []
    assert result.compressed
    assert len(result.history.spans) == 21
    assert 6000 < result.tokens_before < 9000
    assert any("Never send mail to Edda" in str(message["content"]) for message in result.messages)


def test_all_addresses_are_reserved_ones():
    text = json.dumps(DEMO)
    assert Counter("cl100k_base").count(text) > 6000
    assert text.count("@") == text.count("@example.com")
