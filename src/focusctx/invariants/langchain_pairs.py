"""LangChain: every call is answered by tool messages right after its turn, and every tool message has its call.

LangGraph checks the first, the providers behind LangChain check both. Calls at the very end may still wait. Calls with
arguments that could not be parsed may be answered or not, as the agent likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.langchain import body_of, calls_in, dumped_type
from .rule import Violation


def langchain_calls_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    invalid: set[str] = set()
    for position, message in enumerate(messages):
        kind = dumped_type(message)
        if kind == "tool":
            answered = str(body_of(message).get("tool_call_id"))
            if waiting.pop(answered, None) is None and answered not in invalid:
                yield Violation(position, f"result for {answered!r}, which no call of the turn before asked for")
            invalid.discard(answered)
        elif kind in ("human", "ai", "system"):
            for identity, asked_at in waiting.items():
                yield Violation(asked_at, f"tool call {identity!r} has no result before message {position}")
            waiting = dict.fromkeys(calls_in(message), position)
            invalid = set(calls_in(message, "invalid_tool_calls"))
