"""Fixtures for tests of live comparisons."""

from command import focusctx

__all__ = ["focusctx"]
