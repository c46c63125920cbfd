"""The commands of focusctx-bench.

All parsers are made for every `focusctx`, so `bench.py` and `replay.py` import nothing but options; what a command does
is in the other files, which are imported when it is called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module


def later(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """Return a function of a module of this package, which is imported when the function is called."""

    def call(arguments: argparse.Namespace) -> int:
        code: int = getattr(import_module(f".{module}", __name__), name)(arguments)
        return code

    return call
