"""The command in this process, with a draft that says what the test wants."""

import json
from pathlib import Path

import pytest

import focusctx.compressor  # before `say` replaces draft_from, or it would hold the replacement for good
from focusctx.cli import main
from focusctx.drafts import ScriptedDraft
from helpers import histories

PLAN = "Step: finish | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: it failed before"
"""Of five spans: keeps 2, rescues 1; 5 is the newest; 3 and 4 go."""


@pytest.fixture
def focusctx(capsys):
    """Runs a command: `focusctx("compress", "x.json")` gives (exit code, standard output, standard error)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def say(monkeypatch):
    """Replies of any draft that --draft names."""

    def replies(*texts):
        draft = ScriptedDraft(list(texts))
        monkeypatch.setattr("focusctx.drafts.registry.draft_from", lambda name: draft)
        return draft

    return replies


@pytest.fixture
def scripted(say):
    return say(PLAN)


@pytest.fixture
def trace(tmp_path) -> Path:
    """Five spans in a list."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(histories.run(5)))
    return path


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """No colours and no width from the outside."""
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "FOCUSCTX_DEBUG"):
        monkeypatch.delenv(name, raising=False)
