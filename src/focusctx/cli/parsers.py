"""Create subcommands' parsers with common settings."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


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
