"""The parts that commands share: parsers, one-line problems, interruption, stand-ins for those of focusctx-bench."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import FocusError
from ..plugins import INSTALL_BENCH, plugin

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

INCOMPLETE = 3
"""Exit code if not everything was done; the same command continues with the rest."""
GOES_ON = "run the same command again to continue"
_BENCH_COMMANDS = {
    "bench": "rerun the paper: benchmarks, methods, tables and figures",
    "replay.points": "one event at each point, judged by the future",
    "replay.record": "ask a draft for sketches at every point",
    "replay.report": "tables and pictures of what was replayed",
    "replay.agree": "whether a model's next action stays the same",
    "replay.study": "how well sketches estimate what the future needs",
    "replay.ablate": "what each setting is worth",
}
"""Commands of focusctx-bench, each with its help in one line. A name with a dot is a subcommand."""


def parser_for(parts: Commands, name: str, help: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=parser.prog)
    return parser


def add_quiet(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--quiet", "-q", action="store_true", help=f"{help}; warnings and errors stay")


def note(arguments: argparse.Namespace, line: str) -> None:
    """Write a line about what is being done to standard error, unless --quiet was given."""
    if not getattr(arguments, "quiet", False):
        sys.stderr.write(f"{line}\n")


def commands_of(parser: argparse.ArgumentParser) -> Commands:
    """Return the group that subcommands are added to; without a subcommand the parser shows its help."""

    def show_help(_: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return 2

    parser.set_defaults(run=show_help)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


class Problem(FocusError):
    """An unusable file, option or input. The text says what to do next."""


def check_positive(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse any of these options that was given and is not a finite number above 0."""
    for name in names:
        value = getattr(arguments, name, None)
        if value is not None and not value > 0:
            raise Problem(f"--{name.replace('_', '-')} must be above 0, got {value}")
        if value == float("inf"):
            raise Problem(f"--{name.replace('_', '-')} must be a finite number, got {value}")


@contextmanager
def interruptible(and_then: str = GOES_ON) -> Iterator[None]:
    """Guard work that Ctrl-C or SIGTERM may stop at any moment; its files are written whole or not at all."""
    from asyncio import CancelledError  # not above: all commands are loaded for `--help`

    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        sys.stderr.write(f"stopped: interrupted; {and_then}\n")
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: object) -> None:
    import asyncio

    signal.signal(number, signal.default_int_handler)  # a second signal stops at once
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KeyboardInterrupt from None
    # Raised inside a task, KeyboardInterrupt would be reported as that task's failure, with a traceback.
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon_threadsafe(lambda: None)  # wake the loop, which may be asleep


def add_research(commands: Commands, group: str = "") -> None:
    """Add the commands of focusctx-bench to a group, `focusctx` itself or `replay`, with stand-ins if it is missing."""
    for full, summary in _BENCH_COMMANDS.items():
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
