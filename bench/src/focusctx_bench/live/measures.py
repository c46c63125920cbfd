"""One live run in numbers.

Tokens are cl100k_base, without system prompt and tool definitions. For runs through a proxy they are the proxy's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from focusctx.types import Message, Usage

from ..record import Record, Step
from ..sizes import size
from .calls import calls_of, repeated

CACHED = 0.1
"""Price of a token that the provider has in its cache, in tokens at full price."""

_SENTENCE = re.compile(r"[^.!?\n]+\?")
_CONTENT = re.compile(r"[a-z]{4,}")
_NO_FACT = re.compile(
    r"anything else|help you|proceed|confirm|would you like|shall I|should I|correct\?", re.IGNORECASE
)
"""Questions that ask for consent, or for nothing."""
_FILLER = frozenset(re.findall(r"\w+", "could please what which your have with that this there about provide tell"))
_ALIKE = 0.6
"""Share of content words that two questions have in common if they ask for the same thing."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A task under one arm."""

    arm: str
    benchmark: str
    task: str
    success: float
    ended: str
    steps: int
    tokens_per_request: float
    share: float
    """Tokens sent, as a share of what the run's own full history would have taken."""
    tokens: int
    """Tokens of all requests together."""
    cache_priced: float
    """Tokens in all, with cached tokens at a tenth; everything behind a moved prefix is read anew."""
    draft_tokens: int
    """Tokens that drafts, summarisers and embedders read and wrote."""
    deeds_twice: int
    """Calls that change something, made again with equal arguments after they had succeeded."""
    lookups_repeated: int
    """Calls that only read, made again with equal arguments after their result was no longer sent."""
    asked_again: int
    """Questions to the user that the user had answered before; by their words, so an estimate."""
    prefix_moves: int
    """Requests that did not begin with the whole request before."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


COUNTS = ("deeds_twice", "lookups_repeated", "asked_again", "prefix_moves")


def measure(record: Record, arm: str) -> LiveRun:
    steps = record.steps
    sent = sum(step.input_tokens for step in steps)
    full = sum(step.history_tokens for step in steps)
    moved, priced = _through_proxy(record) if record.proxy else _as_sent(record)
    calls = repeated(calls_of(record.messages))
    at_turn = {step.reply: step for step in steps}
    return LiveRun(
        arm=arm,
        benchmark=record.benchmark,
        task=record.task,
        success=record.score.success,
        ended=record.ended,
        steps=len(steps),
        tokens_per_request=sent / max(len(steps), 1),
        share=sent / max(full, 1),
        tokens=sent,
        cache_priced=priced,
        draft_tokens=_draft_tokens(record),
        deeds_twice=sum(not call.is_read for call, _ in calls),
        lookups_repeated=sum(
            call.is_read and _was_cut(record, at_turn[call.turn], [one.result for one in before if one.result])
            for call, before in calls
        ),
        asked_again=asked_again(record.messages),
        prefix_moves=moved,
    )


def asked_again(messages: Sequence[Message]) -> int:
    """Count questions to the user whose words an earlier question had, which the user answered."""
    answered: list[set[str]] = []
    pending: list[set[str]] = []
    found = 0
    for message in messages:
        if message["role"] == "user":
            answered += pending
            pending = []
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            asked = [_words(text) for text in _SENTENCE.findall(str(message.get("content") or ""))]
            questions = [words for words in asked if len(words) > 1]
            found += sum(any(_alike(words, other) for other in answered) for words in questions)
            pending = questions
    return found


def _words(question: str) -> set[str]:
    return set() if _NO_FACT.search(question) else set(_CONTENT.findall(question.lower())) - _FILLER


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) / len(one | other) >= _ALIKE


def _as_sent(record: Record) -> tuple[int, float]:
    """Return prefix moves and cache-priced tokens, from the requests as they were sent."""
    before: list[Message] = []
    moves, priced = 0, 0.0
    for step in record.steps:
        now = record.sent(step)
        same = next((place for place, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), None)
        shared = min(len(before), len(now)) if same is None else same
        moves += shared < len(before)
        priced += step.input_tokens - (1 - CACHED) * size(now[:shared])
        before = now
    return moves, priced


def _through_proxy(record: Record) -> tuple[int, float]:
    """Return the same for a run through a proxy, which does not say where a prefix moved: all of it counts as new."""
    assert record.proxy is not None
    moved = {entry["request"] for entry in record.proxy.get("log", ()) if entry["happened"]}
    priced = 0.0
    before = 0
    for number, step in enumerate(record.steps, 1):
        priced += step.input_tokens - (0 if number in moved else (1 - CACHED) * min(before, step.input_tokens))
        before = step.input_tokens
    return len(moved), priced


def _draft_tokens(record: Record) -> int:
    usage = sum((step.event.usage for step in record.steps if step.event), Usage())
    by_proxy: Mapping[str, int] = (record.proxy or {}).get("draft", {})
    return usage.input_tokens + usage.output_tokens + by_proxy.get("input", 0) + by_proxy.get("output", 0)


def _was_cut(record: Record, step: Step, results: Sequence[Message]) -> bool:
    """Return True if none of these results was in the request of a step; through a proxy: if anything was cut."""
    if record.proxy:
        return step.input_tokens < step.history_tokens
    sent = record.sent(step)
    return not any(result is message or result == message for result in results for message in sent)
