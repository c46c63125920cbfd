"""`focusctx serve` with settings that cannot be: one line that says what to do instead."""

import contextlib
import re
import signal
import socket
import sqlite3
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("bounded")

WRONG: list[tuple[list[str], str]] = [
    ([], "no upstream: add --upstream openai"),
    (["--upstream", "nobody"], "unknown upstream 'nobody'"),
    (["--upstream", "mine=ftp://x"], "its URL must have the form"),
    (["--upstream", "openai", "--upstream", "openai"], "same name"),
    (["--upstream", "openai", "--listen", "x:y"], "HOST:PORT"),
    (["--upstream", "openai", "--listen", "127.0.0.1:99999"], "port must be between 0 and 65535, got 99999"),
    (
        ["--upstream", "openai", "--draft", "openai:m@http://localhost:8433/v1", "--listen", "8433"],
        "would send its requests to this proxy",
    ),
    (["--upstream", "mine=http://127.0.0.1:8433", "--listen", "127.0.0.1:8433"], "mine is this proxy itself"),
    (["--upstream", "openai", "--listen", "0.0.0.0:0"], "set an access token first (FOCUSCTX_TOKEN)"),
    (["--upstream", "openai", "--listen", "127.0.0.1:BUSY"], "choose another address with --listen"),
    (["--upstream", "openai", "--store", "mysql://x"], "unknown store URL"),
    (["--upstream", "openai", "--store", "sqlite:////not/there/focus.db"], "does not exist: /not/there"),
    (["--upstream", "openai", "--store", "sqlite:///OTHER"], "database of another program"),
    (["--upstream", "openai", "--store", "redis://x:port"], "Redis URL is wrong"),
    (["--upstream", "openai", "--draft", "nobody:x"], "--help` lists the drafts"),
    (["--upstream", "openai", "--budget", "many"], "--budget: invalid int value"),
    (["--upstream", "openai", "--budget", "-5"], "budget must be 0 or more"),
    (["--upstream", "openai", "--threshold", "2"], "threshold must be"),
    (["--upstream", "openai", "--rollouts", "0"], "rollouts must be"),
    (["--upstream", "openai", "--body-limit", "-1"], "body_limit"),
    (["--upstream", "openai", "--target", "half"], "--target"),
    (["--upstream", "openai", "--observations", "maybe"], "--observations: invalid choice"),
    (["--upstream", "openai", "--nonsense"], "unrecognized arguments"),
    (["--upstream", "openai", "--config", "/not/there.toml"], "/not/there.toml: No such file"),
    (["--upstream", "openai", "--config", "WRONG"], "[compress] budget must be a whole number, not 'many'"),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_is_wrong_is_said_in_one_line(options: list[str], says: str, tmp_path: Path) -> None:
    from focusctx.cli import main

    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[compress]\nbudget = "many"\n')
    with socket.create_server(("127.0.0.1", 0)) as busy:
        told = {"BUSY": str(busy.getsockname()[1]), "OTHER": str(tmp_path / "other.db"), "WRONG": str(wrong)}
        chosen = [re.sub("|".join(told), lambda match: told[match[0]], option) for option in options]
        if "--listen" not in chosen:
            chosen += ["--listen", "127.0.0.1:0"]
        code, said = _run_here(main, chosen, tmp_path)
    assert code == 2
    assert says in said
    assert said.startswith("focusctx: ")
    assert said.count("\n") == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    ("draft", "variable"), [("openai:m", "OPENAI_BASE_URL"), ("anthropic:m", "ANTHROPIC_BASE_URL")]
)
def test_a_shell_for_agents_is_none_for_the_draft(
    draft: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started again where agents are told of it, the draft would be told of it, too."""
    from focusctx.cli import main

    monkeypatch.setenv(variable, "http://127.0.0.1:8433/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    options = ["--upstream", "openai", "--draft", draft, "--listen", "127.0.0.1:8433"]
    code, said = _run_here(main, options, tmp_path)
    assert code == 2
    assert f"{draft}@http://127.0.0.1:8433" in said
    assert f"unset {variable}" in said or f"and {variable}" in said


def _run_here(main: object, options: list[str], home: Path) -> tuple[int, str]:
    """In this process: to start another one for each takes too long."""
    import io
    import logging

    assert callable(main)
    said = io.StringIO()
    log = logging.getLogger("focusctx")
    before = (list(log.handlers), log.level, log.propagate)
    try:
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
            patch.setenv("XDG_DATA_HOME", str(home))
            patch.delenv("FOCUSCTX_TOKEN", raising=False)
            return main(["serve", *options]), said.getvalue()
    finally:
        log.handlers[:], log.level, log.propagate = before
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
