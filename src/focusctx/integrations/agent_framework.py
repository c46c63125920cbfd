"""Microsoft Agent Framework: `Agent(client, tools=…, middleware=[FocusMiddleware(focus)])`.

Chat middleware runs once per model call, on a copy of the list of messages. A compaction strategy would mark the
messages of the history itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from ..types import Message
from .plug import Caller, Source, TenantOf, as_written, fail_open, needs, places, plugged

with needs("agent-framework"):
    from agent_framework import ChatContext, ChatMiddleware, Content
    from agent_framework import Message as Native

_Part = tuple[dict[str, Any], list[Native]]
"""A chat message, and the framework's own messages it comes from."""


class FocusMiddleware(ChatMiddleware):
    """Calls the client with the view; sessions and histories keep every message."""

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        self.focusctx = plugged(focus, tenant)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        with fail_open():
            options = context.options or {}
            if not options.get("conversation_id"):  # else the service holds the history
                name = options.get("model") or getattr(context.client, "model", None)
                parts = list(_parts(context.messages))
                caller = Caller(
                    id=getattr(context.session, "session_id", None), model=name, framework="agent_framework"
                )
                view = await self.focusctx.aview(as_written([chat for chat, _ in parts]), "chat_completions", caller)
                context.messages = list(_chosen(parts, view))
        await call_next()


def _parts(messages: Sequence[Native]) -> Iterator[_Part]:
    """Yield a chat message for each result of a call, and one for everything the model said and called in a row."""
    for role, run in groupby(messages, key=lambda message: message.role):
        if role == "assistant":
            yield _turn(said := list(run)), said
            continue
        for message in run:
            results = [content for content in message.contents if content.type == "function_result"]
            for result in results:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": _result(result)}, [message]
            if not results:
                yield {"role": role, "content": _content(message.contents)}, [message]


def _turn(messages: Sequence[Native]) -> dict[str, Any]:
    contents = [content for message in messages for content in message.contents]
    calls = [content for content in contents if content.type == "function_call"]
    hidden = [content.text or "" for content in contents if content.type == "text_reasoning"]
    rest = [content for content in contents if content.type not in ("function_call", "text_reasoning")]
    chat: dict[str, Any] = {"role": "assistant", "content": _content(rest)}
    if calls:
        chat["tool_calls"] = [_call(call) for call in calls]
    if any(hidden):
        chat["reasoning_content"] = "\n".join(hidden)
    return chat


def _call(content: Content) -> dict[str, Any]:
    arguments = content.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": content.call_id, "type": "function", "function": {"name": content.name, "arguments": text}}


def _result(content: Content) -> str | list[dict[str, Any]]:
    return _content(content.items) if content.items else str(content.result or "")


def _content(contents: Sequence[Content]) -> str | list[dict[str, Any]]:
    if all(content.type == "text" for content in contents):
        return "\n".join(content.text or "" for content in contents)
    return [content.to_dict(exclude={"id"}) for content in contents]


def _chosen(parts: Sequence[_Part], view: Sequence[Message]) -> Iterator[Native]:
    found = zip(view, places([chat for chat, _ in parts], view), strict=True)
    known = [(chat, None if place is None else parts[place]) for chat, place in found]
    for _, group in groupby(known, key=lambda one: one[1] and id(one[1][1][0])):
        together = list(group)  # the results in one message of the framework's
        chat, part = together[0]
        if part is None:
            yield Native("user", [chat["content"]])
        elif all(one and one[0] is given for given, one in together):
            yield from part[1]
        else:
            yield Native("tool", [_changed(given) for given, _ in together])


def _changed(chat: Message) -> Content:
    return Content.from_function_result(chat["tool_call_id"], result=chat["content"])
