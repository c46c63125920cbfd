"""Commands of focusctx-bench where it is not installed: they say how to install it."""

import pytest

from focusctx.cli import command as commands
from replay.logs import long_run, write


@pytest.fixture(autouse=True)
def without_bench(monkeypatch):
    monkeypatch.setattr(commands, "plugin", lambda kind, name: None)


@pytest.mark.parametrize(
    "command",
    [
        ("bench",),
        ("bench", "run", "--benchmark", "office", "--methods", "all"),
        ("replay", "study", "log.jsonl", "--only", "report"),
        ("replay", "ablate", "settings"),
        ("replay", "agree", "--agent", "openai:x"),
        ("replay", "report", "folder"),
    ],
)
def test_a_command_that_is_not_installed_says_how_to_install_it(focusctx, command):
    code, out, err = focusctx(*command)
    name = " ".join(command[:2] if command[0] == "replay" else command[:1])
    assert (code, out) == (2, "")
    assert err == f"focusctx: `focusctx {name}` comes with focusctx-bench: {commands.INSTALL_BENCH}\n"


def test_replay_run_needs_no_bench(focusctx, tmp_path):
    code, _, err = focusctx("replay", "run", tmp_path / "none.jsonl")
    assert code == 2
    assert "there is no such file" in err


def test_the_help_still_lists_them(focusctx, capsys):
    with pytest.raises(SystemExit):
        focusctx("replay", "--help")
    assert "(needs focusctx-bench)" in " ".join(capsys.readouterr().out.split())


def test_a_method_of_the_bench_says_where_it_comes_from(focusctx, tmp_path, monkeypatch):
    monkeypatch.setattr("focusctx.baselines.registry.plugin_names", lambda kind: ())
    log = write(tmp_path / "log.jsonl", long_run(4))
    code, _, err = focusctx("replay", "run", log, "--methods", "prompting", "--out", tmp_path / "out")
    assert code == 2
    assert "unknown method 'prompting'; known: none, fifo, " in err
    assert err.endswith(f"; more come with focusctx-bench: {commands.INSTALL_BENCH}\n")
