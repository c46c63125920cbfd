"""A failing provider is logged when it begins, and once per interval while it lasts."""

import pytest

from focusctx.proxy.outages import INTERVAL, Outages


def test_one_line_per_provider_and_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    outages = Outages(lambda: now)
    for _ in range(50):
        outages.failed("openai", "no connection")
    outages.failed("anthropic", "invalid HTTP response")
    assert caplog.messages == ["openai: no connection", "anthropic: invalid HTTP response"]
    now += INTERVAL
    outages.failed("openai", "no connection within 30 s")
    outages.failed("openai", "no connection within 30 s")
    assert caplog.messages[2:] == ["openai: no connection within 30 s (49 more failed since the last line about it)"]
    now += 10 * INTERVAL
    outages.failed("openai", "no connection")
    assert caplog.messages[3:] == ["openai: no connection (1 more failed since the last line about it)"]
