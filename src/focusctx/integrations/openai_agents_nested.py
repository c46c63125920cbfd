"""The message into which OpenAI's Agents SDK nests a history at a handoff: one numbered line for each item.

`RunConfig(nest_handoff_history=True)` tells the next agent so what happened. Read as items again, steps can be left
out of it like out of any other history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agents.handoffs import get_conversation_history_wrappers

from ..types import Message
from .plug import places

_PREAMBLE = "For context, here is the conversation so far"
_NUMBERED = re.compile(r"(?m)^(?=\d+\. )")
_NUMBER = re.compile(r"\d+\. ")


@dataclass(frozen=True, slots=True)
class _Line:
    """An item, and the line it is written in; no line for an item of its own."""

    item: Message
    place: int
    """The place of the item, or of the message that it is nested in."""
    text: str | None = None


class Nested:
    """Items with those that are nested in messages taken apart, and the way back."""

    def __init__(self, items: Sequence[Message]) -> None:
        self._items = items
        self._lines = [line for place, item in enumerate(items) for line in _lines(item, place)]
        self.given = [line.item for line in self._lines]

    def sent(self, view: Sequence[Message]) -> list[Message]:
        sent: list[Message] = []
        open_at, texts = -1, list[str]()
        for item, found in zip(view, places(self.given, view), strict=True):
            line = None if found is None else self._lines[found]
            if line is None and texts:
                texts.append(str(item["content"]))
            elif line is None or line.text is None:
                sent += self._closed(open_at, texts)
                texts = []
                sent.append(item)
            else:
                if line.place != open_at:
                    sent += self._closed(open_at, texts)
                    open_at, texts = line.place, []
                texts.append(line.text if item is line.item else _written(line.text, item))
        return sent + self._closed(open_at, texts)

    def _closed(self, place: int, texts: Sequence[str]) -> list[Message]:
        """The nested message with these lines."""
        if not texts:
            return []
        head, start, _, end = _split(str(self._items[place]["content"]))
        return [{**self._items[place], "content": "\n".join([head, start, *texts, end])}]


def _lines(item: Message, place: int) -> Iterator[_Line]:
    content = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, str) or not content.startswith(_PREAMBLE):
        yield _Line(item, place)
        return
    _, start, body, end = _split(content)
    if (start, end) != get_conversation_history_wrappers():
        yield _Line(item, place)
        return
    for text in filter(None, _NUMBERED.split(body)):
        yield _Line(_item(text), place, text.rstrip("\n"))


def _split(content: str) -> tuple[str, str, str, str]:
    """First line, opening mark, numbered lines and closing mark of a nested message."""
    head, _, rest = content.partition("\n")
    start, _, rest = rest.partition("\n")
    body, _, end = rest.rpartition("\n")
    return head, start, body, end


def _item(text: str) -> Message:
    """The item that a line tells of."""
    said = _NUMBER.sub("", text, count=1).rstrip("\n")
    try:
        item = json.loads(said)
    except ValueError:
        role, _, words = said.partition(": ")
        known = role in ("user", "system", "developer")
        return {"role": role, "content": words} if known else {"role": "assistant", "content": said}
    is_item = isinstance(item, dict) and ("role" in item or "type" in item)
    found: dict[str, Any] = item if is_item else {"role": "assistant", "content": said}
    return found


def _written(text: str, item: Message) -> str:
    """A line like this one for an item in another form."""
    number = _NUMBER.match(text)
    return f"{number[0] if number else ''}{json.dumps(item, ensure_ascii=False)}"
