"""What the user can put right: said in one line, without a traceback."""

from __future__ import annotations

import argparse

from ..errors import FocusError

INCOMPLETE = 3
"""The exit code where not all was done, and the same command goes on with the rest."""


class Problem(FocusError):
    """A file, an option or an input that will not do. The text says what to do next."""


def check_positive(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse those of these options that were given and are not a finite number above 0."""
    for name in names:
        value = getattr(arguments, name, None)
        if value is not None and not value > 0:
            raise Problem(f"--{name.replace('_', '-')} must be above 0, got {value}")
        if value == float("inf"):
            raise Problem(f"--{name.replace('_', '-')} must be a finite number, got {value}")
