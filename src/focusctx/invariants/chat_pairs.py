"""Chat Completions: every tool call is answered before the next turn, and every answer has its call.

Calls at the very end may still wait. Roles a provider does not know (recorders add some) are skipped. Ids are matched
within one batch only: some servers reuse ids in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..types import Message
from .rule import Violation

_KNOWN = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def chat_calls_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    for position, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or role not in _KNOWN:
            continue
        if role in ("tool", "function"):
            answered = str(message.get("tool_call_id") if role == "tool" else message.get("name"))
            if waiting.pop(answered, None) is None:
                yield Violation(position, f"result for {answered!r}, which no call of the turn before asked for")
            continue
        for identity, asked_at in waiting.items():
            yield Violation(asked_at, f"tool call {identity!r} has no result before message {position}")
        waiting = dict.fromkeys(_calls(message), position) if role == "assistant" else {}


def _calls(message: Message) -> list[str]:
    made = message.get("tool_calls")
    calls = (
        [str(call.get("id")) for call in made if isinstance(call, Mapping)] if isinstance(made, list | tuple) else []
    )
    legacy = message.get("function_call")
    return [*calls, str(legacy.get("name"))] if isinstance(legacy, Mapping) and legacy else calls
