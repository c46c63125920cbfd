"""Conversations, their events, the evidence for them and the steps left out, as plain data for the page.

Texts are sent only on request.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from ...config import FocusConfig
from ...explain import what_brings_back
from ...pipeline.excerpt import Block, blocks_of, shown_of
from ...pipeline.keep import target_tokens
from ...pipeline.outline import Outline, Outlines, Parts, joint_records
from ...pipeline.split import read_history
from ...prices import price_of
from ...session.events import SessionEvent
from ...session.store import Archived
from ...types import Decision, Fate, Result, Sketch, Span, Unit, UserTurn
from ..access import NamedCaller
from ..conversations import AgentStep, LiveConversation
from ..metrics import CallerSums

Json = dict[str, Any]
_WHAT = 200
"""Characters that are shown of what a span did."""
_TURN = 2000
"""Characters of a user's message that are shown before the whole text is requested."""
_ID = re.compile(r"\s*s_(\d{1,9})(?:\.\d{1,9})?\s*", re.IGNORECASE)
_BEFORE, _AFTER = 60, 160
"""Characters that a search result shows before and after the first word found."""


def about_session(live: LiveConversation) -> Json:
    """Return a session's line in the list of sessions."""
    last = live.steps[-1] if live.steps else None
    savings = live.savings
    events = live.events
    return {
        "id": live.id,
        "run": live.key.id,
        "model": live.key.model,
        "upstream": live.key.upstream,
        "caller": live.key.caller,
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
        "restored": live.restored,
    }


def about_callers(callers: Iterable[NamedCaller], sums: Mapping[str, CallerSums]) -> list[Json]:
    """Return a line for each caller that has a name: what it sent and saved since the proxy started."""
    budgets = {caller.name: caller.budget for caller in callers}
    return [_about_caller(name, budgets.get(name), sums.get(name) or CallerSums()) for name in budgets | dict(sums)]


def _about_caller(name: str, budget: int | None, sums: CallerSums) -> Json:
    return {
        "name": name,
        "budget": budget,
        "requests": sums.all_requests,
        "events": sums.events,
        "received": sums.received,
        "sent": sums.sent,
        "tokens_saved": sums.saved,
        "net": sums.known_net,
    }


def _waits(live: LiveConversation, events: Sequence[SessionEvent]) -> str | None:
    """Return why nothing has happened yet in a session that is over budget; None for others."""
    is_over = bool(live.steps) and live.steps[-1].sent > live.session.focus.config.budget
    return events[-1].cause if is_over and events and not any(event.happened for event in events) else None


def whole_session(live: LiveConversation) -> Json:
    events = live.events
    steps = list(live.steps)
    savings = live.savings
    return {
        **about_session(live),
        "format": live.key.format,
        "caller": live.key.caller or live.key.tenant[:8],
        "budget": live.session.focus.config.budget,
        "target": target_tokens(live.session.focus.config),
        "started": live.started,
        "money": {
            "saved": savings.saved,
            "drafts": savings.draft_cost,
            "rereads": savings.rereads,
            "recalls": savings.recalls,
        },
        "steps": [[step.time, step.full, step.sent, round(step.added, 4), step.exact] for step in steps],
        "steps_limit": live.steps.maxlen,
        "regrets": len({span for event in events if event.result for span in event.result.regrets}),
        "left_out": _left_out(live),
        "log": [
            {**name, **_entry(event, live, place)}
            for name, event, place in zip(_names(events), events, requests_of(steps, events), strict=True)
        ],
    }


def _left_out(live: LiveConversation) -> Json:
    """Count the steps that the current view leaves out or shortens."""
    if live.conversation is None:
        return {"excerpt": 0, "record": 0, "dropped": 0}
    now = live.conversation.left_out
    excerpts = sum(any(number > 0 for number in parts) for parts in now.shown.values())
    return {"excerpt": excerpts, "record": len(now.shown) - excerpts, "dropped": len(now.gone)}


def whole_event(live: LiveConversation, number: int) -> Json | None:
    """Return an event with its evidence; None if no event has that number."""
    events = live.events
    if not 1 <= number <= len(events):
        return None
    event = events[number - 1]
    left = {decision.index: decision.left for decision in event.result.decisions} if event.result else {}
    names, place = _names(events), requests_of(list(live.steps), events)[number - 1]
    return {
        **names[number - 1],
        **_entry(event, live, place),
        "model": live.key.model,
        "earlier": names[number - 2] if number > 1 else None,
        "later": names[number] if number < len(names) else None,
        "money": event.verdict and {"gain": event.verdict.gain, "cost": event.verdict.cost},
        "result": event.result and _evidence_of(event.result, left),
        "back": _back(event, left, events[number:]),
    }


def _back(event: SessionEvent, left: Mapping[int, int], later: Sequence[SessionEvent]) -> list[int]:
    """Return the spans that were restored since: a later event saw more of them than this one left.

    A span that is still shortened was not restored: only the line behind it, about steps that are gone, has grown.
    """
    if not event.happened:
        return []
    seen = (
        span.index
        for other in later
        if other.result and other.result.history
        for span in other.result.history.spans
        if span.tokens > left.get(span.index, span.tokens)
        and not (other.result.history.outlines and span.index in other.result.history.outlines.left)
    )
    return sorted(set(seen))


def _names(events: Sequence[SessionEvent]) -> list[Json]:
    """Return the names of log entries. All have a number, for their URLs; only changes are counted as events."""
    changes = accumulate(int(event.happened) for event in events)
    return [
        {"number": number, "ordinal": change if event.happened else None, "cause": event.cause}
        for number, (event, change) in enumerate(zip(events, changes, strict=True), 1)
    ]


def _entry(event: SessionEvent, live: LiveConversation, place: int | None) -> Json:
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
        "fates": Counter(decision.fate for decision in result.decisions) if result else {},
        "target": result.target if result else None,
        "regrets": len(result.regrets) if result else 0,
    }


def requests_of(steps: Sequence[AgentStep], events: Sequence[SessionEvent]) -> list[int | None]:
    """Return, for each event, the index of its request in `steps`; None if that is no longer remembered.

    Neither of them records it. But an event records the size of the view after it, and its request was sent in that
    size.
    """
    places: defaultdict[int, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        if step.exact:
            places[step.sent].append(number)
    found: list[int | None] = []
    latest = len(steps) - 1
    next_begins: int | None = None
    for event in reversed(events):
        # A request may have two events: a decision made elsewhere, and then one made here.
        if found and event.cause in ("followed", "restored") and event.tokens_after == next_begins:
            found.append(found[-1])
        else:
            place = _last_up_to(places[event.tokens_after], latest)
            if place is not None and event.happened:
                place = _first_try(steps, place)
            found.append(place)
            latest = latest if place is None else place - 1
        next_begins = event.tokens_before
    return found[::-1]


def _last_up_to(places: Sequence[int], latest: int) -> int | None:
    number = bisect_right(places, latest)
    return places[number - 1] if number else None


def _first_try(steps: Sequence[AgentStep], place: int) -> int:
    """Return the first of several equal requests: agents repeat failed ones, and the event came with the first."""
    sizes = steps[place].full, steps[place].sent
    while place and (steps[place - 1].full, steps[place - 1].sent) == sizes:
        place -= 1
    return place


def span_texts(result: Result, index: int) -> list[Json] | None:
    """Return the texts of a span as an event shows it; None if the event has no such span."""
    blocks = shown_of(result, index)
    return None if blocks is None else _as_blocks(blocks)


def _as_blocks(blocks: Iterable[Block]) -> list[Json]:
    """Describe texts: each stretch of words, with the mark that the agent sees in its place, or ""."""
    return [{"name": block.name, "stretches": [[one.text, one.mark] for one in block.stretches]} for block in blocks]


def _evidence_of(result: Result, left: Mapping[int, int]) -> Json:
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
        "target": result.target,
        "regrets": result.regrets,
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
        "what": _what_it_did(span),
        "lengths": _lengths_of(span),
        "fate": decision.fate if decision else "kept",
        "parts": decision.parts if decision else (),
        "utility": decision.utility if decision else None,
        "pinned": decision.pinned if decision else None,
        "note": decision.note if decision else None,
        "back": what_brings_back(decision) if decision else None,
    }


def _what_it_did(span: Span) -> str:
    """Return the beginning of a step's action, or of its words if it took none."""
    return _first_words(span.action or span.thought or span.observation)


def _lengths_of(span: Span) -> Json:
    """Return the number of characters of each text of a step."""
    texts = {"thought": span.thought, "action": span.action, "observation": span.observation}
    return {name: len(text) for name, text in texts.items() if text}


def _turn(turn: UserTurn) -> Json:
    return {"after": turn.after, "text": turn.text[:_TURN], "length": len(turn.text)}


def _sketch(sketch: Sketch) -> Json:
    return {
        "text": sketch.text,
        "steps": [[step.text, _labels(step.cites, step.parts)] for step in sketch.steps],
        "rescues": [[rescue.reason, _labels(rescue.spans, rescue.parts)] for rescue in sketch.rescues],
        "unknown": sketch.unknown,
        "problem": sketch.problem,
    }


def _labels(spans: Iterable[int], parts: Iterable[Unit]) -> list[str]:
    """Return the ids that a sketch cites: `7` for a whole span, `7.2` for a passage."""
    return [*map(str, spans), *(f"{index}.{number}" for index, number in parts)]


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


# --------------------------------------------------------------------------------------------------- steps left out now


@dataclass(frozen=True, slots=True)
class LeftOutStep:
    """A step that the agent does not see whole."""

    span: Span
    """The original."""
    format: str
    fate: Fate
    parts: Parts | None
    """The parts that the agent sees; None if it sees nothing of the step."""
    ending: str
    """The line behind its last result about steps that are gone, or ""."""
    left: int
    """Tokens that stay of it."""
    reason: str
    """Reason given by the sketches when it was left out."""
    outline: Outline

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [self.span.thought, self.span.action, self.span.observation]))


def left_out_steps(live: LiveConversation) -> tuple[list[LeftOutStep], list[int]]:
    """Return the steps that are left out or shortened now, and the numbers of those without an original in the store.

    Reads the store, so it may raise `StoreError` and belongs on a thread.
    """
    conversation = live.conversation
    if conversation is None:
        return [], []
    now = conversation.left_out
    archived = [one for one in conversation.archived() if one.index in now.spans]
    wire_format, focus = live.key.format, live.session.focus
    outlines = Outlines(wire_format, focus.count, focus.config.reads)
    spans = [_original(one, wire_format) for one in archived]
    # Which step carries a line about others depends on where the whole steps are, not on their texts.
    whole = {*range(1, conversation.reader.newest + 1)} - now.spans if spans else set()
    every = sorted([*spans, *(replace(spans[0], index=index) for index in whole)], key=lambda span: span.index)
    lines = joint_records(every, whole, now.shown, outlines)
    steps = [
        _step(span, one.reason, now.shown.get(span.index), lines.get(span.index, ""), outlines)
        for span, one in zip(spans, archived, strict=True)
    ]
    return steps, sorted(now.spans.difference(one.index for one in archived))


def _original(archived: Archived, format: str) -> Span:
    # Only messages of the step itself are archived: a user's message among them is an observation.
    history = read_history(archived.messages, FocusConfig(observations="always"), len, format=format)
    return replace(history.spans[0], index=archived.index, tokens=archived.tokens)


def _step(span: Span, reason: str, parts: Parts | None, ending: str, outlines: Outlines) -> LeftOutStep:
    fate: Fate = "dropped" if parts is None else "excerpt" if any(number > 0 for number in parts) else "record"
    left = 0 if parts is None else outlines.tokens(span, parts, ending)
    return LeftOutStep(span, outlines.format, fate, parts, ending, left, reason, outlines.of(span))


def step_texts(step: LeftOutStep) -> list[Json]:
    """Return all texts of a step, with the marks that the agent sees."""
    return _as_blocks(blocks_of(step.span, step.format, step.parts, step.ending))


def found_steps(steps: Sequence[LeftOutStep], query: str) -> list[Json]:
    """Describe the steps whose original holds every word of the query, or the one with that id; all if it is empty."""
    words = query.split()
    if named := _ID.fullmatch(query):
        steps, words = [step for step in steps if step.span.index == int(named[1])], []
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in words]
    return [
        {
            "index": step.span.index,
            "fate": step.fate,
            "tokens": step.span.tokens,
            "left": step.left,
            "what": _what_it_did(step.span),
            "lengths": _lengths_of(step.span),
            "reason": step.reason,
            "hit": _hit(step, patterns) if patterns else None,
        }
        for step in steps
        if all(pattern.search(step.text) for pattern in patterns)
    ]


def _hit(step: LeftOutStep, patterns: Sequence[re.Pattern[str]]) -> Json:
    """Return the words around the first match, and the passage that holds most of the words."""
    scores = {
        passage.number: sum(pattern.search(passage.text) is not None for pattern in patterns)
        for passage in step.outline.passages
    }
    best = max(scores, key=lambda number: (scores[number], -number), default=0)
    if not scores.get(best):
        best = 0
    text = step.outline.text_of(best) if best else step.text
    found = next(match for pattern in patterns if (match := pattern.search(text)))
    start, end = max(found.start() - _BEFORE, 0), min(found.end() + _AFTER, len(text))
    return {
        "before": ("…" if start else "") + text[start : found.start()],
        "words": found[0],
        "after": text[found.end() : end] + ("…" if end < len(text) else ""),
        "passage": f"s_{step.span.index}.{best}" if best else None,
        "seen": step.parts is not None and best in step.parts,
    }
