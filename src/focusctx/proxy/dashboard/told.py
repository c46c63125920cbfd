"""What the page is told, as plain data. Texts of a history are left out wherever they are not asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...prices import price_of
from ...session.events import SessionEvent
from ...types import Decision, Result, Sketch, Span, UserTurn
from ..sessions import Live
from .moments import moments

Json = dict[str, Any]
_WHAT = 200
"""Characters that tell what a span did."""
_TURN = 2000
"""Characters of the user's words that are shown unasked."""


def about_session(live: Live) -> Json:
    """A line of the list."""
    last = live.steps[-1] if live.steps else None
    savings = live.session.savings
    return {
        "id": live.id,
        "model": live.key.model,
        "upstream": live.key.upstream,
        "active": last.time if last else live.started,
        "full": last.full if last else 0,
        "sent": last.sent if last else 0,
        "exact": last.exact if last else True,
        "requests": len(live.steps),
        "events": sum(event.happened for event in list(live.session.events)),
        "tokens_saved": savings.tokens_saved,
        "net": savings.net if price_of(live.key.model) else None,
    }


def whole_session(live: Live) -> Json:
    events = list(live.session.events)
    steps = list(live.steps)
    savings = live.session.savings
    return {
        **about_session(live),
        "format": live.key.format,
        "caller": live.key.tenant[:8],
        "started": live.started,
        "money": {
            "saved": savings.saved,
            "drafts": savings.drafts,
            "rereads": savings.rereads,
            "recalls": savings.recalls,
        },
        "steps": [[step.time, step.full, step.sent, round(step.added, 4), step.exact] for step in steps],
        "steps_limit": live.steps.maxlen,
        "log": [
            _entry(number, event, live, place)
            for number, (event, place) in enumerate(zip(events, moments(steps, events), strict=True), 1)
        ],
    }


def whole_event(live: Live, number: int) -> Json | None:
    """An event with its evidence; None if there is none of that number."""
    events = list(live.session.events)
    if not 1 <= number <= len(events):
        return None
    event = events[number - 1]
    place = moments(list(live.steps), events)[number - 1]
    return {
        **_entry(number, event, live, place),
        "model": live.key.model,
        "conversation": event.conversation,
        "is_current": event.conversation == events[-1].conversation,
        "of": len(events),
        "money": event.verdict and {"gain": event.verdict.gain, "cost": event.verdict.cost},
        "result": event.result and _result(event.result),
        "back": _back(event, events[number:]),
    }


def _back(event: SessionEvent, later: Sequence[SessionEvent]) -> list[int]:
    """The spans that it dropped and a later one saw whole again: somebody had wanted them back."""
    result = event.result
    if result is None or result.history is None or not event.happened:
        return []
    sizes = {span.index: span.tokens for span in result.history.spans if span.index in set(result.dropped)}
    seen = (
        span.index
        for other in later
        if other.conversation == event.conversation and other.result and other.result.history
        for span in other.result.history.spans
        if span.tokens == sizes.get(span.index)  # and no skeleton of it
    )
    return sorted(set(seen))


def texts_of(span: Span) -> Json:
    return {"thought": span.thought, "action": span.action, "observation": span.observation}


def _entry(number: int, event: SessionEvent, live: Live, place: int | None) -> Json:
    """A line of a session's log."""
    result = event.result
    return {
        "number": number,
        "happened": event.happened,
        "cause": event.cause,
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


def _result(result: Result) -> Json:
    history = result.history
    decided = {decision.index: decision for decision in result.decisions}
    usage = result.usage
    return {
        "spans": [_span(span, decided.get(span.index)) for span in history.spans] if history else [],
        "turns": [_turn(turn) for turn in history.user_turns] if history else [],
        "frame": max(result.tokens_before - sum(decision.tokens for decision in result.decisions), 0),
        "sketches": [_sketch(sketch) for sketch in result.sketches],
        "certificate": _certificate(result),
        "failure": result.failure,
        "warnings": result.warnings,
        "latency": result.latency,
        "usage": {
            "requests": usage.requests,
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cost": usage.cost,
        },
    }


def _span(span: Span, decision: Decision | None) -> Json:
    """Without a decision (the event failed, or could drop nothing) a span stays."""
    return {
        "index": span.index,
        "tokens": span.tokens,
        "what": _first_words(span.action or span.thought or span.observation),
        "lengths": {name: len(text) for name, text in texts_of(span).items() if text},
        "fate": decision.fate if decision else "kept",
        "utility": decision.utility if decision else None,
        "pinned": decision.pinned if decision else None,
        "note": decision.note if decision else None,
    }


def _turn(turn: UserTurn) -> Json:
    return {"after": turn.after, "text": turn.text[:_TURN], "length": len(turn.text)}


def _sketch(sketch: Sketch) -> Json:
    return {
        "text": sketch.text,
        "steps": [[step.text, step.cites] for step in sketch.steps],
        "rescues": [[rescue.reason, rescue.spans] for rescue in sketch.rescues],
        "unknown": sketch.unknown,
        "problem": sketch.problem,
    }


def _certificate(result: Result) -> Json | None:
    found = result.certificate
    if found is None:
        return None
    return {
        "set_utility": found.set_utility,
        "radius": found.radius,
        "confidence": found.confidence,
        "rollouts": found.rollouts,
        "m_max": found.m_max,
        "bound": found.bound,
        "assumptions": found.assumptions,
    }


def _first_words(text: str) -> str:
    line = " ".join(text[: 4 * _WHAT].split())
    return line if len(line) <= _WHAT and len(text) <= 4 * _WHAT else f"{line[: _WHAT - 1]}…"
