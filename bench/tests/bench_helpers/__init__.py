"""Helpers of the tests of focusctx-bench."""
