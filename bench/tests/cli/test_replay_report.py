"""`focusctx replay report` and `agree`: on small logs, with a scripted provider."""

import json

import pytest

from focusctx_bench.replay.agreement.answers import answer_file
from helpers import task as ledger
from helpers.provider import Provider
from replay.logs import long_run, write


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "log.jsonl", long_run(30, "a"), long_run(24, "b"))


@pytest.fixture
def provider():
    with Provider(ledger.model) as scripted:
        yield scripted


def test_a_report_of_what_was_replayed(focusctx, log, tmp_path):
    out = tmp_path / "out"
    assert focusctx("replay", "run", log, "--budget", 400, "--jobs", 1, "--out", out)[0] == 0
    code, told, _ = focusctx("replay", "report", out, "--format", "markdown")
    assert code == 0
    assert str(out / "report" / "report.md") in told
    assert "figures/walks-log-trade-off.png" in told
    text = (out / "report" / "report.md").read_text()
    assert "FOCUS − Newest spans" in text
    assert "`focusctx " in text, "the command that made the records"


def test_nothing_to_report(focusctx, tmp_path):
    code, _, err = focusctx("replay", "report", tmp_path)
    assert code == 2
    assert "make some with `focusctx replay run`" in err


def test_a_model_behind_a_server_is_asked_with_the_tools_of_the_log(focusctx, log, provider, tmp_path):
    out = tmp_path / "out"
    command = ("replay", "agree", log, "--budget", 400, "--agent", f"openai:gpt-4.1@{provider.url}/v1", "--out", out)
    code, told, err = focusctx(*command, "--points", 3)
    assert code == 0, err
    for name in ("No compression, asked again", "FOCUS", "Newest spans @ FOCUS", "Masking @ FOCUS"):
        assert name in told
    assert "\n3 points\n" in err
    assert provider.received
    for received in provider.received:
        assert [tool["function"]["name"] for tool in received.body["tools"]] == ["read"]
    asked = len(provider.received)
    answers = list(answer_file(out))
    assert len({answer.place for answer in answers}) == 3
    assert all(json.dumps(answer.turn) for answer in answers)
    assert focusctx(*command, "--points", 3)[0] == 0
    assert len(provider.received) == asked, "nothing is asked twice"
    assert focusctx("replay", "report", out, "--format", "html")[0] == 0
    assert "Next-action agreement" in (out / "report" / "report.html").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--agent", "openai:x@http://127.0.0.1:1/v1", "--longest", "10"), "none within --longest 10 led to an action"),
        (("--agent", "openai:x@http://127.0.0.1:1/v1", "--points", "0"), "--points must be above 0"),
        (("--agent", "offline"), "can be a draft but not the agent's model"),
        ((), "--agent"),
    ],
)
def test_what_a_user_can_do_wrong(focusctx, log, tmp_path, more, said):
    code, _, err = focusctx("replay", "agree", log, "--budget", 400, "--out", tmp_path / "out", *more)
    assert code == 2
    assert said in err
