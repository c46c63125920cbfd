"""The scripts for shells, run by the shells themselves."""

import shutil
import subprocess

import pytest

LINES = {
    ("co",): {"compress", "completion"},
    ("compress", "--ob"): {"--observations"},
    ("compress", "--observations", ""): {"auto", "always", "never"},
    ("replay", "ru"): {"run"},
    ("replay", "run", "--dr"): {"--draft"},
    ("store", "list", "--js"): {"--json"},
    ("completion", ""): {"bash", "zsh", "fish"},
}
BASH = """
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _focusctx; echo "${COMPREPLY[*]}"; }
"""
ZSH = """
compdef() { :; }
_files() { :; }
compadd() { shift; for word in "$@"; do [[ $word == "$PREFIX"* ]] && print -n -- "$word "; done; }
"""
ZSH_TRY = """
try() { words=("$@"); CURRENT=$#; PREFIX=$words[CURRENT]; _focusctx; print; }
"""


def script(focusctx, shell):
    code, out, err = focusctx("completion", shell)
    assert (code, err) == (0, "")
    return out


def run(shell, text, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def tries():
    return "\n".join("try focusctx " + " ".join(f"'{word}'" for word in words) for words in LINES)


def test_bash_completes(focusctx, tmp_path):
    found = run("bash", f"{script(focusctx, 'bash')}\n{BASH}\n{tries()}", tmp_path)
    assert [set(line.split()) for line in found] == [*LINES.values()]


def test_bash_leaves_file_names_to_the_shell(focusctx, tmp_path):
    (found,) = run("bash", f"{script(focusctx, 'bash')}\n{BASH}\ntry focusctx compress tra", tmp_path)
    assert found == ""


def test_zsh_completes(focusctx, tmp_path):
    found = run("zsh", f"{ZSH}\n{script(focusctx, 'zsh')}\n{ZSH_TRY}\n{tries()}", tmp_path)
    assert [set(line.split()) for line in found] == [*LINES.values()]


def test_fish_completes(focusctx, tmp_path):
    asked = "\n".join(f'echo (complete -C "focusctx {" ".join(words)}")' for words in LINES)
    found = run("fish", f"{script(focusctx, 'fish')}\n{asked}", tmp_path)
    assert [set(line.split()) for line in found] == [*LINES.values()]


def test_an_unknown_shell_is_refused(focusctx):
    code, _, err = focusctx("completion", "tcsh")
    assert code == 2
    assert "'bash'" in err
