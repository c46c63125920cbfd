"""Tests reach no network (see pyproject.toml), and property tests behave the same on every machine."""

from hypothesis import HealthCheck, settings

from helpers.command import focusctx
from helpers.thorough import examples

__all__ = ["focusctx"]

settings.register_profile(
    "focusctx",
    deadline=None,
    derandomize=True,
    max_examples=examples(160),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("focusctx")
