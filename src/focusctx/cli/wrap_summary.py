"""The lines that `focusctx wrap` ends with: what was saved, or why nothing was."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..prices import price_of

if TYPE_CHECKING:
    from ..proxy.app import Proxy


def summary(proxy: Proxy, address: str, warnings: Sequence[str]) -> list[str]:
    """Say in a few lines what compression did while the proxy ran."""
    lines = [_saved(proxy), *_money(proxy)]
    if warnings:
        many = f"{len(warnings):,} warnings, the last" if len(warnings) > 1 else "a warning"
        lines.append(f"{many}: {warnings[-1]} (--log FILE keeps the whole log)")
    return [*lines, f"the dashboard was at {address}/ui; `focusctx serve` keeps one open"]


def _saved(proxy: Proxy) -> str:
    sums = proxy.metrics.sums
    requests = f"{proxy.metrics.requests:,} request{'' if proxy.metrics.requests == 1 else 's'}"
    if not proxy.metrics.requests:
        return "nothing saved: no request came through the proxy. Does the agent's own configuration set a base URL?"
    if not sums.requests:
        return f"{requests}, nothing saved: none of them had a history that focusctx reads"
    if not sums.saved:
        return f"{requests}, nothing saved: {_reason(proxy)}"
    share = sums.saved / sums.received
    events = f"{sums.events:,} event{'' if sums.events == 1 else 's'}"
    went = "would have gone up" if proxy.settings.dry_run else "went up"
    return (
        f"{requests}, {events}: {sums.sent:,} of {sums.received:,} tokens of history {went} "
        f"({sums.saved:,} {'fewer' if proxy.settings.dry_run else 'saved'}, {share:.0%})"
    )


def _reason(proxy: Proxy) -> str:
    """Say why no history was compressed."""
    budget = proxy.focus.config.budget
    events = [live.events[-1] for live in proxy.conversations if live.events]
    return events[0].why if events else f"no history was larger than the budget of {budget:,} tokens"


def _money(proxy: Proxy) -> Iterator[str]:
    """Say what it was worth. A model or a draft without a known price makes that unknown."""
    sums = proxy.metrics.sums
    if not sums.saved and not sums.events:
        return
    unpriced = sorted({live.key.model for live in proxy.conversations if price_of(live.key.model) is None})
    if unpriced:
        yield f"worth in USD unknown: no price for {', '.join(unpriced)} (FOCUSCTX_PRICES names a file with your own)"
    elif math.isnan(sums.net):
        yield f"worth in USD unknown: the draft {proxy.focus.draft.name} has no known price"
    else:
        drafts = sum(live.savings.drafts for live in proxy.conversations)
        would = "it would have been worth" if proxy.settings.dry_run else "worth"
        yield f"{would} {sums.net:.2f} USD, the draft's {drafts:.2f} USD already taken off"
