"""Agno: `Agent(model=focused(model, focus), tools=…)`, and teams and workflows with such models.

A model runs the whole loop of calls and tools; each of its calls goes through one of four methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from copy import copy
from typing import Any, TypeVar

from ..types import Message
from .plug import Plug, Source, fail_open, needs, places

with needs("agno"):
    from agno.models.base import Model
    from agno.models.message import Message as Native

_Kind = TypeVar("_Kind", bound=Model)
_FORMAT = "chat_completions"
_MEDIA = ("images", "audio", "videos", "files")


def focused(model: _Kind, focus: Source) -> _Kind:
    """A copy of the model whose calls carry views; of the same class, the same in everything else."""
    plug, kind = Plug(focus), type(model)

    class Focused(kind):  # type: ignore[misc, valid-type]
        def invoke(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            with fail_open():
                messages = view(messages)
            return super().invoke(messages, *args, **kwargs)

        def invoke_stream(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            with fail_open():
                messages = view(messages)
            return super().invoke_stream(messages, *args, **kwargs)

        async def ainvoke(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            with fail_open():
                messages = await aview(messages)
            return await super().ainvoke(messages, *args, **kwargs)

        async def ainvoke_stream(self, messages: list[Native], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with fail_open():
                messages = await aview(messages)
            async for part in super().ainvoke_stream(messages, *args, **kwargs):
                yield part

    def view(messages: Sequence[Native]) -> list[Native]:
        given = [_chat(message) for message in messages]
        return _chosen(messages, given, plug.view(given, _FORMAT, model=model.id))

    async def aview(messages: Sequence[Native]) -> list[Native]:
        given = [_chat(message) for message in messages]
        return _chosen(messages, given, await plug.aview(given, _FORMAT, model=model.id))

    changed = copy(model)
    changed.__class__ = Focused
    return changed


def _chosen(messages: Sequence[Native], given: list[Message], view: list[Message]) -> list[Native]:
    found = zip(view, places(given, view), strict=True)
    return [
        Native(role="user", content=chat["content"]) if place is None else _changed(messages[place], given[place], chat)
        for chat, place in found
    ]


def _changed(message: Native, given: Message, chat: Message) -> Native:
    nothing = {"compressed_content": None, **dict.fromkeys(_MEDIA)}
    return message if chat is given else message.model_copy(update={"content": chat["content"], **nothing})


def _chat(message: Native) -> Message:
    chat: dict[str, Any] = {"role": message.role, "content": message.content}
    shown = [{"type": kind, "id": one.id} for kind in _MEDIA for one in getattr(message, kind) or ()]
    if shown or not isinstance(message.content, str | None):
        chat["content"] = [{"type": "text", "text": message.get_content_string()}, *shown]
    if message.tool_calls:
        chat["tool_calls"] = message.tool_calls
    if message.tool_call_id:
        chat["tool_call_id"] = message.tool_call_id
    if message.reasoning_content:
        chat["reasoning_content"] = message.reasoning_content
    return chat
