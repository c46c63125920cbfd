"""Fixtures for tests of commands."""

from helpers.command import focusctx, plain, say, scripted, trace

__all__ = ["focusctx", "plain", "say", "scripted", "trace"]
