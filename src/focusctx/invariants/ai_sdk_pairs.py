"""AI SDK: every call is answered by tool messages right after its turn, and every result there has its call.

The SDK checks calls itself before it asks a model, and providers check both. Calls at the very end may still wait. A
run of assistant messages counts as one turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.part import typed_blocks
from .rule import Violation


def ai_sdk_calls_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    waiting: dict[str, int] = {}
    answering = False
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            answering = True
            for answered in _ids(message, "tool-result"):
                if waiting.pop(answered, None) is None:
                    yield Violation(position, f"result for {answered!r}, which no call of the turn before asked for")
            continue
        if role in ("user", "system") or (role == "assistant" and answering):
            for identity, asked_at in waiting.items():
                yield Violation(asked_at, f"tool call {identity!r} has no result before message {position}")
            waiting, answering = {}, False
        if role == "assistant":
            served = set(_ids(message, "tool-result"))
            waiting |= {called: position for called in _ids(message, "tool-call") if called not in served}


def _ids(message: Message, kind: str) -> Iterator[str]:
    """Yield the calls that the message's parts of this type belong to, apart from calls that the provider answers."""
    for found, part in typed_blocks(message):
        if found == kind and not part.get("providerExecuted"):
            yield str(part.get("toolCallId"))
