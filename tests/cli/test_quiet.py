"""--quiet, NO_COLOR, and one line per conversation where there are many."""

import io
import json
import subprocess
import sys

import pytest

from focusctx.cli.output import console_on
from focusctx.errors import DraftError
from helpers import histories
from helpers.text_agents import HUMANS
from replay.logs import long_run, write


def test_compress_prints_the_messages_alone(focusctx, scripted, trace):
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0, "--quiet")
    assert (code, err) == (0, "")
    assert len(json.loads(out)) < len(histories.run(5))
    code, out, err = focusctx("compress", trace, "--budget", 0, "--target", 0, "-q", "--out", trace)
    assert (code, out, err) == (0, "", "")


def test_warnings_stay(focusctx, say, trace, tmp_path):
    say(DraftError("no answer"))
    _, _, err = focusctx("compress", trace, "--budget", 0, "--quiet")
    assert "focusctx: warning: " in err
    assert "not compressed" in err
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(HUMANS["pastes logs alone"]))
    _, _, err = focusctx("compress", path, "--budget", 500, "--quiet")
    assert f"focusctx: warning: {path}: 14 user messages look like tool output" in err


def test_explain_says_nothing_about_the_page(focusctx, scripted, trace, tmp_path):
    page = tmp_path / "x.html"
    assert focusctx("explain", trace, "--budget", 0, "--out", page, "--quiet") == (0, "", "")
    assert page.read_text().startswith("<!doctype html>")


def test_replay_prints_the_tables_alone(focusctx, tmp_path):
    log = write(tmp_path / "log.jsonl", long_run(20, "a"))
    code, out, err = focusctx("replay", "run", log, "--jobs", 1, "--out", tmp_path / "out", "--quiet")
    assert (code, err) == (0, "")
    assert "No compression" in out
    assert "Recommendation" in out


def test_serve_starts_without_a_word(tmp_path):
    command = [
        sys.executable,
        "-m",
        "focusctx",
        "serve",
        "--upstream",
        "x=http://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
    ]
    served = subprocess.Popen(
        [*command, "--store", "memory", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with pytest.raises(subprocess.TimeoutExpired):
        served.wait(4)
    served.terminate()
    assert served.communicate(timeout=30) == ("", "")


@pytest.mark.parametrize("forced", [True, False])
def test_no_color_means_no_escape_at_all(monkeypatch, forced):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def printed():
        stream = Terminal()
        console_on(stream).print("bold", style="bold red")
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed() == "bold\n"
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[" in printed(), "an empty NO_COLOR means nothing"


def test_many_conversations_get_a_line_each(focusctx, scripted, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps({"id": f"run-{n}", "messages": histories.run(5)}) + "\n" for n in range(9)))
    _, _, err = focusctx("compress", path, "--budget", 0, "--target", 0)
    lines = err.splitlines()
    assert len(lines) == 10
    assert all(line.startswith(f"run-{n} ({path} line {n + 1}): ") for n, line in enumerate(lines[:9]))
    assert lines[9].startswith("9 conversations: ")
