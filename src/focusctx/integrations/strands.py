"""Strands Agents: `Agent(model, tools=tools, plugins=[FocusPlugin(focus)])`.

A conversation manager would edit the agent's messages in place. A model's call can be changed without that, by
middleware, which is given copies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..types import Message
from .plug import CHAT, Caller, ChatPiece, Source, TenantOf, as_written, fail_open, kept, needs, plugged

with needs("strands"):
    from strands.middleware import InvokeModelStage
    from strands.plugins import Plugin

if TYPE_CHECKING:
    from strands import Agent
    from strands.middleware import InvokeModelContext

Native = Mapping[str, Any]
"""A message, `{"role": …, "content": [block, …]}`, or a block, whose one key says what it is."""


class FocusPlugin(Plugin):
    """Sends the model the view; `agent.messages` stays whole."""

    name = "focusctx"

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        super().__init__()
        self.focusctx = plugged(focus, tenant)

    def init_agent(self, agent: Agent) -> None:
        agent.add_middleware(InvokeModelStage.Input, self._with_view)

    async def _with_view(self, context: InvokeModelContext) -> InvokeModelContext:
        messages: list[Any] = context.messages
        if context.model.stateful:
            return context  # the server holds the history
        with fail_open():
            pieces = [piece for place, message in enumerate(messages) for piece in _pieces(place, message)]
            view = await self.focusctx.aview(as_written([piece.chat for piece in pieces]), CHAT, _caller(context))
            messages = _merged(_sent(messages, place, parts) for place, parts in kept(pieces, view).items())
        return context.replace(messages=messages)


def _caller(context: InvokeModelContext) -> Caller:
    """Name the conversation: a session, of an agent object or a session manager, holds one or more agents."""
    agent: Any = context.agent
    name = context.model.get_config().get("model_id")
    return Caller(
        id=f"{agent.session_id}/{agent.agent_id}",
        model=name if isinstance(name, str) else None,
        framework="strands",
    )


def _pieces(place: int, message: Native) -> list[ChatPiece]:
    """Return one piece for a model's turn; for a user's message one for each tool result, and one for the rest."""
    blocks = message["content"]
    if message["role"] == "assistant":
        return [ChatPiece(place, tuple(range(len(blocks))), _turn(blocks))]
    results: list[list[int]] = []
    words: list[int] = []
    last = words
    for number, block in enumerate(blocks):
        if "toolResult" in block:
            last = [number]
            results.append(last)
        elif "cachePoint" in block:
            last.append(number)  # a cache mark belongs to the block before it
        else:
            last = words
            words.append(number)
    pieces = [ChatPiece(place, tuple(numbers), _result(blocks[numbers[0]]["toolResult"])) for numbers in results]
    if words:
        chat = {"role": "user", "content": _blocks(blocks[number] for number in words)}
        pieces.append(ChatPiece(place, tuple(words), chat))
    return pieces


def _sent(messages: Sequence[Native], place: int | None, parts: dict[int, str | None]) -> dict[str, Any]:
    if place is None:
        return {"role": "user", "content": [{"text": parts[0]}]}
    message = messages[place]
    return {**message, "content": [_changed(message["content"][number], text) for number, text in parts.items()]}


def _changed(block: Native, text: str | None) -> Native:
    if text is None or "cachePoint" in block:
        return block
    if "toolResult" in block:
        return {"toolResult": {**block["toolResult"], "content": [{"text": text}]}}
    return {"text": text}


def _merged(messages: Iterable[dict[str, Any]]) -> list[Any]:
    """Join user messages that follow each other: some providers want the roles to alternate."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] == "user":
            merged[-1] = {**message, "content": [*merged[-1]["content"], *message["content"]]}
        else:
            merged.append(message)
    return merged


def _turn(blocks: Sequence[Native]) -> Message:
    chat: dict[str, Any] = {"role": "assistant"}
    chat["content"] = _blocks(block for block in blocks if not {"toolUse", "reasoningContent"} & block.keys())
    hidden = [block["reasoningContent"].get("reasoningText", {}) for block in blocks if "reasoningContent" in block]
    if thought := "\n".join(reasoning.get("text", "") for reasoning in hidden):
        chat["reasoning_content"] = thought
    if calls := [block["toolUse"] for block in blocks if "toolUse" in block]:
        chat["tool_calls"] = [
            {
                "id": call["toolUseId"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["input"], default=str)},
            }
            for call in calls
        ]
    return chat


def _result(result: Native) -> Message:
    return {"role": "tool", "tool_call_id": result["toolUseId"], "content": _blocks(result["content"])}


def _blocks(blocks: Iterable[Native]) -> list[dict[str, Any]]:
    return [_block(block) for block in blocks if "cachePoint" not in block]


def _block(block: Native) -> dict[str, Any]:
    """Describe texts, data and citations as text; anything else as a file, named by a hash of it."""
    if isinstance(text := block.get("text"), str):
        return {"type": "text", "text": text}
    if said := {"json", "citationsContent", "guardContent"} & block.keys():
        return {"type": "text", "text": json.dumps(block[said.pop()], default=str)}
    return {"type": "file", "file": hashlib.sha256(repr(block).encode()).hexdigest()}
