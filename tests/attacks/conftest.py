"""Fixtures for all attacks: a bound in time, and nothing left behind."""

from proxy.conftest import bounded, nothing_left

__all__ = ["bounded", "nothing_left"]
