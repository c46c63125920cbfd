"""Fixtures for tests of commands."""

from helpers.command import focusctx, plain

__all__ = ["focusctx", "plain"]
