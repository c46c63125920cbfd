"""Tests reach no network (see pyproject.toml), and property tests behave the same on every machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("focusctx", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("focusctx")
