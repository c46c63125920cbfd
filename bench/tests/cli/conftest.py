"""Fixtures for tests of commands."""

from command import focusctx, plain

__all__ = ["focusctx", "plain"]
