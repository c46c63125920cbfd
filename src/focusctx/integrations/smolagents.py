"""smolagents: `FocusedCodeAgent(tools, model, focus=focus)`, `FocusedToolCallingAgent(…)`, and a mixin for others.

An agent writes its memory to messages in which calls and their results are plain text, and asks its model with those.
So the steps of the memory are translated: the model's turn, and the result of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from ..types import Message
from .plug import Caller, Source, TenantOf, as_written, fail_open, needs, places, plugged

with needs("smolagents"):
    from smolagents import ChatMessage, CodeAgent, MessageRole, MultiStepAgent, ToolCallingAgent

_Part = tuple[dict[str, Any], list[ChatMessage]]
"""A chat message, and the agent's own messages that it was made from."""


class FocusedAgent(MultiStepAgent):
    """Goes before an agent's class: `class MyFocusedAgent(FocusedAgent, MyAgent)`. The memory keeps every step."""

    def __init__(self, *args: Any, focus: Source, tenant: TenantOf | None = None, **kwargs: Any) -> None:
        self.focusctx = plugged(focus, tenant)
        self._conversation = uuid4().hex
        super().__init__(*args, **kwargs)

    def write_memory_to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """Return the messages of the view. A summary, from which plans are made, leaves out the same steps."""
        messages: list[ChatMessage] = super().write_memory_to_messages(summary_mode)
        with fail_open():
            steps = [self.memory.system_prompt, *self.memory.steps]
            named = [(f"step_{number}", step) for number, step in enumerate(steps)]
            parts = [part for name, step in named for part in _parts(step, name, self.tools, summary_mode)]
            model = getattr(self.model, "model_id", None)
            caller = Caller(id=self._conversation, model=model, framework="smolagents")
            view = self.focusctx.view(as_written([chat for chat, _ in parts]), "chat_completions", caller)
            messages[:] = [message for part in _chosen(parts, view) for message in part]
        return messages


class FocusedCodeAgent(FocusedAgent, CodeAgent):
    """A `CodeAgent` whose model gets views."""


class FocusedToolCallingAgent(FocusedAgent, ToolCallingAgent):
    """A `ToolCallingAgent` whose model gets views."""


def _parts(step: Any, name: str, tools: Iterable[str], summary_mode: bool) -> Iterator[_Part]:
    """Yield a turn with one call for a step of the model, and everything after it as the call's result."""
    said, called, result = _sorted(step.to_messages(False))
    written = _sorted(step.to_messages(summary_mode))
    if not said and not called:
        for number, message in enumerate(result):
            yield {"role": _role(message), "content": _content([message])}, written[2][number : number + 1]
        return
    turn: dict[str, Any] = {"role": "assistant", "content": _content(said)}
    if result:
        function = {"name": _name(called, tools), "arguments": _content(called)}
        turn["tool_calls"] = [{"id": name, "type": "function", "function": function}]
    yield turn, [*written[0], *written[1]]
    if result:
        yield {"role": "tool", "tool_call_id": name, "content": _content(result)}, written[2]


def _name(called: Sequence[ChatMessage], tools: Iterable[str]) -> str:
    """Return the names of the tools that a step uses, in a list of calls or in code: they tell whether it only reads.

    A step without a call is a plan.
    """
    text = str(_content(called))
    used = [tool for tool in tools if re.search(rf"\b{re.escape(tool)}\b", text)]
    return "_".join(used) or ("act" if called else "plan")


def _sorted(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], list[ChatMessage], list[ChatMessage]]:
    """Sort a step's messages into words, calls of tools, and results."""
    said = [message for message in messages if message.role == MessageRole.ASSISTANT]
    called = [message for message in messages if message.role == MessageRole.TOOL_CALL]
    return said, called, [message for message in messages if message not in said and message not in called]


def _role(message: ChatMessage) -> str:
    return "system" if message.role == MessageRole.SYSTEM else "user"


def _content(messages: Sequence[ChatMessage]) -> str | list[dict[str, Any]]:
    """Return the texts joined; if there are images, a list of blocks."""
    blocks = [block for message in messages for block in _blocks(message)]
    if any(block["type"] != "text" for block in blocks):
        return blocks
    return "\n".join(block["text"] for block in blocks)


def _blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return [block if block["type"] == "text" else _image(block) for block in message.content or ()]


def _image(block: dict[str, Any]) -> dict[str, Any]:
    """Describe an image by its size, since a session could not compare pixels."""
    return {"type": "image", "size": getattr(block.get("image"), "size", None)}


def _chosen(parts: Sequence[_Part], view: Sequence[Message]) -> Iterator[list[ChatMessage]]:
    given = [chat for chat, _ in parts]
    for chat, place in zip(view, places(given, view), strict=True):
        if place is not None and (chat is given[place] or not parts[place][1]):
            yield parts[place][1]
        else:
            role = MessageRole.USER if place is None else MessageRole.TOOL_RESPONSE
            yield [ChatMessage(role=role, content=[{"type": "text", "text": chat["content"]}])]
