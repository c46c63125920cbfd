"""The command as the shell sees it."""

import json
import re
import subprocess
import sys

import pytest

from focusctx import __version__
from focusctx.baselines.embedders import embedder_from
from focusctx.baselines.registry import method_names
from focusctx.cli import main
from focusctx.cli.options import DRAFTS, EMBEDDERS
from focusctx.drafts.registry import draft_from
from focusctx.errors import ConfigError
from helpers import histories


def shell(*arguments, data=None):
    command = [sys.executable, "-m", "focusctx", *map(str, arguments)]
    return subprocess.run(command, check=False, input=data, capture_output=True, timeout=60)


def test_compress_in_a_pipe():
    messages = histories.run(40)
    done = shell("compress", "-", "--budget", 100, data=json.dumps(messages).encode())
    assert done.returncode == 0
    kept = json.loads(done.stdout)
    assert len(kept) < len(messages)
    assert kept[-1] == messages[-1]
    table = done.stderr.decode()
    assert "\x1b" not in table
    assert "s_40" in table


def test_an_error_in_the_shell(tmp_path):
    done = shell("explain", tmp_path / "none.json")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().count("\n") == 1


def test_a_reader_that_has_seen_enough():
    lines = "\n".join([json.dumps(histories.run(30))] * 200)
    command = [sys.executable, "-m", "focusctx", "compress", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(lines.encode())
        process.stdin.close()
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141
    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said


def test_the_help_names_the_commands_and_loads_nothing_heavy():
    code = (
        "import sys; from focusctx.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'rich', 'aiohttp', 'tiktoken', 'asyncio'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "compress" in done.stdout
    assert "focusctx demo" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["compress", "explain", "demo"])
def test_each_command_has_a_help(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "--draft" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"focusctx {__version__}\n"


def help_of(capsys, *command):
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    return capsys.readouterr().out


def test_the_help_lists_what_can_be_named(capsys):
    replay = re.sub(r"-\s+", "-", help_of(capsys, "replay", "run"))  # argparse breaks lines at hyphens
    for name in {*method_names(), "focus"} - {"acon-ut", "acon-utco"}:  # no guideline can be given there
        assert name in replay


def test_the_help_says_what_budget_and_target_are(capsys):
    told = " ".join(help_of(capsys, "compress").split())
    assert "compress a history that is larger than this, see --target" in told
    assert "a share of the budget up to 1, or a number of tokens; only what may never go can exceed it" in told


def test_the_help_lists_every_form_of_a_draft():
    with pytest.raises(ConfigError) as known:
        draft_from("nobody")
    listed = [line.split()[0] for line in str(known.value).splitlines()[1:] if line.startswith("  ")]
    prefixes = {name for form in listed if form != "these" for name in form.partition(":")[0].split("|")}
    assert "transformers" in prefixes
    for prefix in prefixes:
        assert prefix in DRAFTS


def test_the_help_lists_every_form_of_an_embedder():
    with pytest.raises(ConfigError) as known:
        embedder_from("nobody")
    for line in str(known.value).splitlines()[1:-1]:
        assert line.split()[0].partition(":")[0] in EMBEDDERS
