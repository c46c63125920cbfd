"""Problems that the user can fix: reported in one line, without a traceback."""

from __future__ import annotations

import argparse

from ..errors import FocusError

INCOMPLETE = 3
"""Exit code if not everything was done; the same command continues with the rest."""


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
