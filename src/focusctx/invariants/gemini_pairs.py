"""Gemini: calls come after the user's turn, and the next turn has exactly one response for each of them.

Consecutive contents of one side are checked as one turn. Responses pair with calls by name, and by id where both have
one. Calls at the very end may still wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..types import Message
from ..wire.gemini import calls_in, results_in
from .rule import Violation


def gemini_calls_and_responses_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: list[tuple[str, str]] = []
    asked_at = 0
    sides = groupby(enumerate(messages), key=lambda entry: entry[1].get("role") == "model")
    for is_model, entries in sides:
        turn = list(entries)
        if is_model:
            waiting = [call for _, message in turn for call in calls_in(message)]
            asked_at = turn[0][0]
            if waiting and asked_at == 0:
                yield Violation(0, "a function call must come after a turn of the user")
            continue
        answers = [(position, *result) for position, message in turn for result in results_in(message)]
        yield from _unmatched(waiting, asked_at, answers)
        waiting = []


def _unmatched(
    calls: Sequence[tuple[str, str]], asked_at: int, answers: Sequence[tuple[int, str, str]]
) -> Iterator[Violation]:
    open_calls = Counter(name for name, _ in calls)
    ids = {identity for _, identity in calls}
    for position, name, identity in answers:
        if not open_calls[name]:
            yield Violation(position, f"functionResponse for {name!r}, which the turn before did not call")
        elif identity and "" not in ids and identity not in ids:
            yield Violation(
                position, f"functionResponse with the id {identity!r}, which no call of the turn before has"
            )
        open_calls[name] -= 1
    for name, count in open_calls.items():
        if count > 0:
            yield Violation(asked_at, f"functionCall {name!r} has no functionResponse in the next turn")
