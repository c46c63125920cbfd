"""Agno: `Agent(model=focused(model, focus), tools=…)`, and teams and workflows with such models.

A model runs the whole loop of calls and tools; each of its calls goes through one of four methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar, cast

from ..types import Message
from .plug import CHAT, Caller, Plug, Source, TenantOf, as_written, fail_open, native_messages, needs, plugged, subclass

with needs("agno"):
    from agno.models.base import Model
    from agno.models.message import Message as Native

_Kind = TypeVar("_Kind", bound=Model)
_MEDIA = ("images", "audio", "videos", "files")


def focused(model: _Kind, focus: Source, *, tenant: TenantOf | None = None) -> _Kind:
    """Return a copy of the model whose calls carry views; it is of the same class."""
    changed: Any = copy(model)
    changed.__class__ = subclass(_focused, type(model))
    changed.focusctx = plugged(focus, tenant)
    return cast("_Kind", changed)


def _focused(kind: type[Any]) -> type[Any]:
    class Focused(kind):
        focusctx: Plug

        def invoke(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            return super().invoke(self._view(messages, kwargs), *args, **kwargs)

        def invoke_stream(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            return super().invoke_stream(self._view(messages, kwargs), *args, **kwargs)

        async def ainvoke(self, messages: list[Native], *args: Any, **kwargs: Any) -> Any:
            return await super().ainvoke(await self._aview(messages, kwargs), *args, **kwargs)

        async def ainvoke_stream(self, messages: list[Native], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for part in super().ainvoke_stream(await self._aview(messages, kwargs), *args, **kwargs):
                yield part

        def _view(self, messages: list[Native], options: Mapping[str, Any]) -> list[Native]:
            with fail_open():
                given = as_written([_chat(message) for message in messages])
                return _chosen(messages, given, self.focusctx.view(given, CHAT, self._caller(options)))
            return messages

        async def _aview(self, messages: list[Native], options: Mapping[str, Any]) -> list[Native]:
            with fail_open():
                given = as_written([_chat(message) for message in messages])
                return _chosen(messages, given, await self.focusctx.aview(given, CHAT, self._caller(options)))
            return messages

        def _caller(self, options: Mapping[str, Any]) -> Caller:
            return Caller(id=_conversation(options.get("run_response")), model=self.id, framework="agno")

    return Focused


def _conversation(run: Any) -> str | None:
    """Name the conversation: a session belongs to a user, and each agent or team in it has its own messages."""
    named = [getattr(run, name, None) for name in ("user_id", "session_id")]
    own = getattr(run, "agent_id", None) or getattr(run, "team_id", None)
    return "/".join(str(part) for part in (*named, own) if part) if named[1] else None


def _chosen(messages: Sequence[Native], given: list[Message], view: list[Message]) -> list[Native]:
    return native_messages(
        messages, given, view, line=lambda text: Native(role="user", content=text), shortened=_shortened
    )


def _shortened(message: Native, text: str) -> Native:
    nothing = {"compressed_content": None, **dict.fromkeys(_MEDIA)}
    return message.model_copy(update={"content": text, **nothing})


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
