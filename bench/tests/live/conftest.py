"""Fixtures for tests of live comparisons."""

from helpers.command import focusctx

__all__ = ["focusctx"]
