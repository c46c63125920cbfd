"""Responses: a reference stays with the rest of its step, or the provider refuses the request.

A reference to reasoning comes directly before the item it led to, and a call given by reference has its output before
the conversation goes on. An item whose id shows no known kind may be a call or an output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Message
from ..wire.responses import Stored, is_reference, item_kind, made_by_model, stored_kind
from .rule import Violation


def responses_references_have_their_step(messages: Sequence[Message]) -> Iterator[Violation]:
    calls: set[str] = set()
    unanswered: list[int] = []
    for position, item in enumerate(messages):
        if is_reference(item):
            yield from _reference(position, item, messages[position + 1 : position + 2])
            if stored_kind(item) is Stored.CALL:
                unanswered.append(position)
            elif stored_kind(item) is Stored.UNKNOWN and unanswered:
                unanswered.pop(0)  # it may be the output
        elif item_kind(item).endswith("_output"):
            if unanswered and str(item.get("call_id", item.get("id"))) not in calls:
                unanswered.pop(0)
        elif item_kind(item) == "message":
            for place in unanswered:
                yield Violation(place, f"reference to the call {messages[place].get('id')!r} without its output")
            unanswered = []
        elif item.get("call_id") is not None:
            calls.add(str(item["call_id"]))


def _reference(position: int, item: Message, following: Sequence[Message]) -> Iterator[Violation]:
    if not isinstance(item.get("id"), str):
        yield Violation(position, "item_reference without an 'id'")
    elif stored_kind(item) is Stored.REASONING and not (following and _led_to(following[0])):
        yield Violation(position, f"reference to the reasoning {item['id']!r} without the item it led to")


def _led_to(item: Message) -> bool:
    return made_by_model(item) and not (is_reference(item) and stored_kind(item) is Stored.REASONING)
