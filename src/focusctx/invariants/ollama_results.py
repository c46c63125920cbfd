"""Ollama: every result comes after a turn with a call for it. Ollama takes anything else, unanswered calls included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from .rule import Violation


def ollama_results_have_calls(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting = 0
    for position, message in enumerate(messages):
        if message.get("role") == "assistant":
            calls = message.get("tool_calls")
            waiting = len(calls) if isinstance(calls, list | tuple) else 0
        elif message.get("role") == "tool":
            if not waiting:
                yield Violation(position, "a tool result that no call of the turn before asked for")
            waiting = max(waiting - 1, 0)
