"""Sessions and events as plain data for the page. Texts are sent only on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from ...prices import price_of
from ...session.events import SessionEvent
from ..sessions import Live
from .evidence import Json, evidence_of, left_of
from .moments import moments


def about_session(live: Live) -> Json:
    """Return a session's line in the list of sessions."""
    last = live.steps[-1] if live.steps else None
    savings = live.savings
    events = live.events
    return {
        "id": live.id,
        "run": live.key.id,
        "model": live.key.model,
        "upstream": live.key.upstream,
        "active": last.time if last else live.started,
        "full": last.full if last else 0,
        "sent": last.sent if last else 0,
        "exact": last.exact if last else True,
        "requests": len(live.steps),
        "events": sum(event.happened for event in events),
        "waits": _waits(live, events),
        "tokens_saved": savings.tokens_saved,
        "net": savings.net if price_of(live.key.model) else None,
        "unpriced": savings.unpriced,
    }


def _waits(live: Live, events: Sequence[SessionEvent]) -> str | None:
    """Return why nothing has happened yet in a session that is over budget; None for others."""
    is_over = bool(live.steps) and live.steps[-1].sent > live.session.focus.config.budget
    return events[-1].cause if is_over and events and not any(event.happened for event in events) else None


def whole_session(live: Live) -> Json:
    events = live.events
    steps = list(live.steps)
    savings = live.savings
    return {
        **about_session(live),
        "format": live.key.format,
        "caller": live.key.tenant[:8],
        "started": live.started,
        "money": {
            "saved": savings.saved,
            "drafts": savings.draft_cost,
            "rereads": savings.rereads,
            "recalls": savings.recalls,
        },
        "steps": [[step.time, step.full, step.sent, round(step.added, 4), step.exact] for step in steps],
        "steps_limit": live.steps.maxlen,
        "log": [
            {**name, **_entry(event, live, place)}
            for name, event, place in zip(_names(events), events, moments(steps, events), strict=True)
        ],
    }


def whole_event(live: Live, number: int) -> Json | None:
    """Return an event with its evidence; None if no event has that number."""
    events = live.events
    if not 1 <= number <= len(events):
        return None
    event = events[number - 1]
    left = left_of(event.result, live.session.focus.count) if event.result else {}
    names, place = _names(events), moments(list(live.steps), events)[number - 1]
    return {
        **names[number - 1],
        **_entry(event, live, place),
        "model": live.key.model,
        "earlier": names[number - 2] if number > 1 else None,
        "later": names[number] if number < len(names) else None,
        "money": event.verdict and {"gain": event.verdict.gain, "cost": event.verdict.cost},
        "result": event.result and evidence_of(event.result, left),
        "back": _back(event, left, events[number:]),
    }


def _back(event: SessionEvent, left: Mapping[int, int], later: Sequence[SessionEvent]) -> list[int]:
    """Return the spans of which a later event saw more than this one left: they had been restored."""
    if not event.happened:
        return []
    seen = (
        span.index
        for other in later
        if other.result and other.result.history
        for span in other.result.history.spans
        if span.tokens > left.get(span.index, span.tokens)
    )
    return sorted(set(seen))


def _names(events: Sequence[SessionEvent]) -> list[Json]:
    """Return the names of log entries. All have a number, for their URLs; only changes are counted as events."""
    changes = accumulate(int(event.happened) for event in events)
    return [
        {"number": number, "ordinal": change if event.happened else None, "cause": event.cause}
        for number, (event, change) in enumerate(zip(events, changes, strict=True), 1)
    ]


def _entry(event: SessionEvent, live: Live, place: int | None) -> Json:
    """Return a line of a session's log."""
    result = event.result
    return {
        "happened": event.happened,
        "why": event.why,
        "span": event.span,
        "before": event.tokens_before,
        "after": event.tokens_after,
        "repeated": event.steps,
        "request": None if place is None else place + 1,
        "time": None if place is None else live.steps[place].time,
        "spans": len(result.decisions) if result else 0,
        "dropped": len(result.dropped) if result else 0,
    }
