"""What the user can put right: said in one line, without a traceback."""

from __future__ import annotations

from ..errors import FocusError


class Problem(FocusError):
    """A file, an option or an input that will not do. The text says what to do next."""
