"""A subcommand's parser, as all of ours are."""

from __future__ import annotations

import argparse
from typing import Any


def parser_for(parts: Any, name: str, help: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser
