"""Gemini: calls come after the user's turn, and the next turn has exactly one response for each of them.

Consecutive contents of one side are checked as one turn. Responses pair with calls by name, and by id where both have
one. Calls at the very end may still wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..types import Message
from ..wire.gemini import Block, calls_in, responses_in
from .rule import Violation


def gemini_calls_and_responses_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: list[Block] = []
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
        answers = [(position, body) for position, message in turn for body in responses_in(message)]
        yield from _unmatched(waiting, asked_at, answers)
        waiting = []


def _unmatched(calls: Sequence[Block], asked_at: int, answers: Sequence[tuple[int, Block]]) -> Iterator[Violation]:
    open_calls = Counter(str(call.get("name")) for call in calls)
    ids = {str(call.get("id")) for call in calls if call.get("id")}
    for position, answer in answers:
        name, identity = str(answer.get("name")), answer.get("id")
        if not open_calls[name]:
            yield Violation(position, f"functionResponse for {name!r}, which the turn before did not call")
        elif identity and len(ids) == len(calls) and str(identity) not in ids:
            yield Violation(position, f"functionResponse for the id {identity!r}, which no call of the turn before has")
        open_calls[name] -= 1
    for name, count in open_calls.items():
        if count > 0:
            yield Violation(asked_at, f"functionCall {name!r} has no functionResponse in the next turn")
