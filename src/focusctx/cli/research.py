"""Commands of `focusctx-bench`: added if it is installed; otherwise they say how to install it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..plugins import INSTALL_BENCH, plugin
from .parsers import parser_for
from .problem import Problem

if TYPE_CHECKING:
    from .parsers import Commands

COMMANDS = {
    "bench": "rerun the paper: benchmarks, methods, tables and figures",
    "replay.points": "one event at each point, judged by the future",
    "replay.record": "ask a draft for sketches at every point",
    "replay.report": "tables and pictures of what was replayed",
    "replay.agree": "whether a model's next action stays the same",
    "replay.study": "how well sketches estimate what the future needs",
    "replay.ablate": "what each setting is worth",
}
"""Name to one-line help. A name with a dot is a subcommand."""


def add_research(commands: Commands, group: str = "") -> None:
    """Add the commands of a group: those of `focusctx` itself, or those of `focusctx replay`."""
    for full, summary in COMMANDS.items():
        parent, _, name = full.rpartition(".")
        if parent != group:
            continue
        add_to = plugin("commands", full)
        if add_to is not None:
            add_to(commands)
            continue
        parser = parser_for(commands, name, f"{summary} (needs focusctx-bench)", f"Not installed: {INSTALL_BENCH}")
        parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
        parser.set_defaults(run=not_installed)


def not_installed(arguments: argparse.Namespace) -> int:
    """Stand in for a command that is not installed."""
    raise Problem(f"`{arguments.command}` comes with focusctx-bench: {INSTALL_BENCH}")
