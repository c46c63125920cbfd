"""OpenAI's Agents SDK: `RunConfig(call_model_input_filter=FocusFilter(focus))`.

The SDK's items are those of the Responses API, whichever model they go to, so there is nothing to translate but one:
with `RunConfig(nest_handoff_history=True)`, a handoff nests the history so far in one message, with a numbered line for
each item. It is read as items again, so that steps can be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..types import Message
from .plug import Caller, Source, TenantOf, fail_open, needs, places, plugged

with needs("openai-agents"):
    from agents import get_current_trace
    from agents.handoffs import get_conversation_history_wrappers
    from agents.memory import SessionABC

if TYPE_CHECKING:
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData

_FORMAT = "responses"
_PREAMBLE = "For context, here is the conversation so far"
_NUMBERED = re.compile(r"(?m)^(?=\d+\. )")
_NUMBER = re.compile(r"\d+\. ")


class FocusFilter:
    """Gives every model call a view; the run's items, and the session they are stored in, stay whole.

    A trace's `group_id`, in the `RunConfig`, names the conversation.
    """

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        items = data.model_data.input
        with fail_open():
            nested = _Nested(items)
            group = getattr(get_current_trace(), "group_id", None)
            caller = Caller(id=group, model=_name(data.agent.model), framework="openai_agents")
            items = nested.sent(await self.focusctx.aview(nested.given, _FORMAT, caller))
        return replace(data.model_data, input=items)


class FocusSession(SessionABC):
    """Wraps a session: each run begins with a view of it, and what is stored in it stays whole.

    For chats of many short runs, instead of the filter: the view is made once, when a run begins.
    """

    def __init__(self, session: Session, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.session = session
        self.session_id = session.session_id
        self.session_settings = session.session_settings
        self.focusctx = plugged(focus, tenant)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items: list[Any] = await self.session.get_items(limit)
        if limit is None:  # with a limit, the SDK looks at what it stored last
            with fail_open():
                caller = Caller(id=self.session_id, framework="openai_agents")
                items = await self.focusctx.aview(items, _FORMAT, caller)
        return items

    async def add_items(self, items: list[Any]) -> None:
        await self.session.add_items(items)

    async def pop_item(self) -> Any:
        return await self.session.pop_item()

    async def clear_session(self) -> None:
        await self.session.clear_session()


def _name(model: Any) -> str | None:
    """Return the name of an agent's model, which may be an object that has the name."""
    name = getattr(model, "model", model)
    return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True)
class _Line:
    """An item, and its line if it is nested in a message."""

    item: Message
    place: int
    """Index of the item, or of the message that it is nested in."""
    text: str | None = None


class _Nested:
    """Takes items out of the messages that they are nested in, and nests those of a view again."""

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
        """Return the message at `place` with these lines nested in it; nothing without lines."""
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
    """Return the first line, the opening mark, the numbered lines and the closing mark of a nested message."""
    head, _, rest = content.partition("\n")
    start, _, rest = rest.partition("\n")
    body, _, end = rest.rpartition("\n")
    return head, start, body, end


def _item(text: str) -> Message:
    """Parse the item in a line."""
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
    """Write another form of an item as the line `text` was written."""
    number = _NUMBER.match(text)
    return f"{number[0] if number else ''}{json.dumps(item, ensure_ascii=False)}"
