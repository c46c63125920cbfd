"""The `focusctx` command. One file per command; what they need is imported when they run."""

from .main import main

__all__ = ["main"]
