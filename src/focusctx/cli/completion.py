"""`focusctx completion`: a script that lets a shell complete commands, options and their values.

The script is made from the parser itself, so it knows what is installed. Everything else completes as a file name.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .command import parser_for

if TYPE_CHECKING:
    from .command import Commands

_DESCRIPTION = """\
Print a script that completes commands, options and their values.

  bash:  eval "$(focusctx completion bash)"           in ~/.bashrc
  zsh:   eval "$(focusctx completion zsh)"            in ~/.zshrc, after compinit
  fish:  focusctx completion fish | source            in config.fish
"""


@dataclass(frozen=True, slots=True)
class _Command:
    path: tuple[str, ...]
    """The words that lead to it: `("replay", "run")`."""
    commands: tuple[str, ...]
    options: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]
    """The values of options that take one of a few words."""


def add_to(commands: Commands, whole: argparse.ArgumentParser) -> None:
    parser = parser_for(commands, "completion", "print a script for your shell's completion", _DESCRIPTION)
    parser.add_argument("shell", choices=tuple(_SCRIPTS))
    parser.set_defaults(run=lambda arguments: _run(arguments, whole))


def _run(arguments: argparse.Namespace, whole: argparse.ArgumentParser) -> int:
    sys.stdout.write(_SCRIPTS[arguments.shell]([*_commands(whole, ())]))
    return 0


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[_Command]:
    """Yield a parser and those of its subcommands."""
    inner: dict[str, argparse.ArgumentParser] = {}
    options: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    words: tuple[str, ...] = ()
    for action in parser._actions:  # argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            inner = action.choices
        elif not action.option_strings:
            words += tuple(map(str, action.choices or ()))
        elif action.help is not argparse.SUPPRESS:
            options += action.option_strings
            choices |= {name: tuple(map(str, action.choices)) for name in action.option_strings if action.choices}
    yield _Command(path, (*inner, *words), tuple(options), choices)
    for name, one in inner.items():
        yield from _commands(one, (*path, name))


def _cases(found: list[_Command], reply: Callable[[tuple[str, ...]], str]) -> str:
    """Return the shell code that walks down the words to a command and sets what may come next."""
    inner = "|".join(shlex.quote(f"{' '.join(one.path[:-1])} {one.path[-1]}") for one in found if one.path)
    lines = [f'    case "$at $word" in {inner}) at="${{at:+$at }}$word";; esac', "  done", '  case "$at $last" in']
    for one in found:
        place = " ".join(one.path)
        lines += [
            f"    {shlex.quote(f'{place} {option}')}) {reply(values)}; return;;"
            for option, values in one.choices.items()
        ]
    lines += ["  esac", '  case "$at" in']
    lines += [f"    {shlex.quote(' '.join(one.path))}) {reply((*one.commands, *one.options))};;" for one in found]
    return "\n".join([*lines, "  esac"])


def _bash(found: list[_Command]) -> str:
    def reply(words: tuple[str, ...]) -> str:
        return f"_focusctx_reply {shlex.quote(' '.join(words))}"

    return f"""\
_focusctx_reply() {{
  local word
  COMPREPLY=()
  for word in $1; do  # options only where one is begun, or they would hide files
    [[ $word == "$cur"* && ( $cur == -* || $word != -* ) ]] && COMPREPLY+=("$word")
  done
}}
_focusctx() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" last="${{COMP_WORDS[COMP_CWORD-1]}}" at="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{_cases(found, reply)}
}}
complete -o default -F _focusctx focusctx
"""


def _zsh(found: list[_Command]) -> str:
    def reply(words: tuple[str, ...]) -> str:
        return f"_focusctx_reply {' '.join(map(shlex.quote, words))}"

    return f"""\
#compdef focusctx
_focusctx_reply() {{
  if [[ $PREFIX == -* ]]; then compadd -- ${{(M)@:#-*}}; else compadd -- ${{@:#-*}}; _files; fi
}}
_focusctx() {{
  local last=$words[CURRENT-1] at="" word
  for word in $words[2,CURRENT-1]; do
{_cases(found, reply)}
}}
compdef _focusctx focusctx
"""


def _fish(found: list[_Command]) -> str:
    lines = []
    for one in found:
        tests = [f"__fish_seen_subcommand_from {word}" for word in one.path]
        if one.commands:
            tests.append(f"not __fish_seen_subcommand_from {' '.join(one.commands)}")
        condition = shlex.quote("; and ".join(tests))
        if one.commands:
            lines.append(f"complete -c focusctx -f -n {condition} -a {shlex.quote(' '.join(one.commands))}")
        for option in one.options:
            name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = f" -x -a {shlex.quote(' '.join(one.choices[option]))}" if option in one.choices else ""
            lines.append(f"complete -c focusctx -n {condition} {name}{values}")
    return "\n".join([*lines, ""])


_SCRIPTS: dict[str, Callable[[list[_Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
