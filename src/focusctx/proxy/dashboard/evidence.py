"""An event's result as plain data: the fate of each span and what is left of it, the sketches, the bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...pipeline.skeleton import skeleton_of
from ...tokens import TokenCounter
from ...types import Decision, Result, Sketch, Span, UserTurn

Json = dict[str, Any]
_WHAT = 200
"""Characters that are shown of what a span did."""
_TURN = 2000
"""Characters of a user's message that are shown before the whole text is requested."""


def texts_of(span: Span) -> Json:
    return {"thought": span.thought, "action": span.action, "observation": span.observation}


def left_of(result: Result, count: TokenCounter) -> dict[int, int]:
    """Return the tokens left of each span that was not kept whole: 0, or those of its skeleton."""
    history = result.history
    left = dict.fromkeys(result.dropped, 0)
    if history is not None and result.skeletons:
        outlined = (span for span in history.spans if span.index in result.skeletons)
        left |= {span.index: skeleton_of(span, history.format, count).tokens for span in outlined}
    return left


def evidence_of(result: Result, left: Mapping[int, int]) -> Json:
    history = result.history
    decided = {decision.index: decision for decision in result.decisions}
    usage = result.usage
    return {
        "spans": [_span(s, decided.get(s.index), left.get(s.index, s.tokens)) for s in history.spans]
        if history
        else [],
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


def _span(span: Span, decision: Decision | None, left: int) -> Json:
    """Describe a span. Without a decision (the event failed, or could drop nothing) it was kept."""
    return {
        "index": span.index,
        "tokens": span.tokens,
        "left": left,
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
