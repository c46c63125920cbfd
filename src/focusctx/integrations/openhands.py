"""OpenHands SDK: `Agent(llm=…, tools=…, condenser=FocusCondenser(focus=focus))`.

A condenser answers with a `Condensation`, an event that takes others out of the conversation for good, or with a
`View` for the call that is about to be made. This one makes views: the conversation stays whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Self

from ..types import Message
from .plug import CHAT, Caller, Plug, as_written, fail_open, needs, places, plugged

with needs("openhands"):
    from openhands.sdk.context.condenser.base import PipelinableCondenserBase
    from openhands.sdk.context.view import View
    from openhands.sdk.event import ActionEvent, LLMConvertibleEvent
    from openhands.sdk.event.types import SourceType
    from openhands.sdk.llm import LLM, TextContent
    from openhands.sdk.llm import Message as LLMMessage
    from pydantic import Field, PrivateAttr

_Part = tuple[dict[str, Any], list[LLMConvertibleEvent]]
"""A chat message, and the events it comes from."""


class FocusCondenser(PipelinableCondenserBase):
    """Gives the model the view; the conversation keeps every event. A condenser that was saved and loaded again has no
    `focus`, and sends all events."""

    focus: Any = Field(default=None, exclude=True)
    tenant: Any = Field(default=None, exclude=True)
    _plug: Plug | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._plug = None if self.focus is None else plugged(self.focus, self.tenant)

    @property
    def focusctx(self) -> Plug | None:
        return self._plug

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        memo = {} if memo is None else memo
        memo[id(self.focus)] = self.focus  # live: a copy has the same, as it has the same plug
        copied: Self = super().__deepcopy__(memo)
        return copied

    def condense(self, view: View, agent_llm: LLM | None = None) -> View:
        with fail_open():
            if self._plug:
                given, parts = _read(view)
                found = self._plug.view(given, CHAT, _caller(agent_llm))
                view = view.model_copy(update={"events": list(_chosen(parts, found))})
        return view

    async def acondense(self, view: View, agent_llm: LLM | None = None) -> View:
        with fail_open():
            if self._plug:
                given, parts = _read(view)
                found = await self._plug.aview(given, CHAT, _caller(agent_llm))
                view = view.model_copy(update={"events": list(_chosen(parts, found))})
        return view


def _caller(llm: LLM | None) -> Caller:
    return Caller(model=None if llm is None else llm.model, framework="openhands")


class ShownInstead(LLMConvertibleEvent):
    """Replaces events in a view: a placeholder, or the line about missing steps."""

    message: LLMMessage
    source: SourceType = "environment"

    def to_llm_message(self) -> LLMMessage:
        return self.message


def _read(view: View) -> tuple[list[Message], list[_Part]]:
    parts: list[_Part] = []
    for _, group in groupby(view.events, key=_turn):
        events = list(group)
        (message,) = LLMConvertibleEvent.events_to_messages(events)
        parts.append((_chat(message), events))
    return as_written([chat for chat, _ in parts]), parts


def _turn(event: LLMConvertibleEvent) -> str:
    """Return the same key for all actions of a turn, which are one message; other events are messages by themselves."""
    return str(event.llm_response_id if isinstance(event, ActionEvent) else event.id)


def _chat(message: LLMMessage) -> dict[str, Any]:
    texts = [part.text for part in message.content if isinstance(part, TextContent)]
    chat: dict[str, Any] = {"role": message.role, "content": "\n".join(texts)}
    if len(texts) < len(message.content):
        chat["content"] = [part.model_dump(mode="json") for part in message.content]
    if message.tool_calls:
        chat["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        chat["tool_call_id"] = message.tool_call_id
    if hidden := message.reasoning_content:
        chat["reasoning_content"] = hidden
    return chat


def _call(call: Any) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _chosen(parts: Sequence[_Part], view: Sequence[Message]) -> Iterator[LLMConvertibleEvent]:
    found = zip(view, places([chat for chat, _ in parts], view), strict=True)
    for chat, place in found:
        if place is None:
            yield ShownInstead(message=LLMMessage(role="user", content=[TextContent(text=chat["content"])]))
        elif chat is parts[place][0]:
            yield from parts[place][1]
        else:
            message = parts[place][1][0].to_llm_message()
            yield ShownInstead(message=message.model_copy(update={"content": [TextContent(text=chat["content"])]}))
