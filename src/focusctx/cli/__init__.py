"""The `focusctx` command. One file per command; dependencies are imported when a command runs."""

from .main import main

__all__ = ["main"]
