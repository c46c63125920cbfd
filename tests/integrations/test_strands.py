"""Strands: chat, Responses and Anthropic models, sync, async and streamed, and messages of all kinds."""

import asyncio
import copy
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from focusctx import Focus
from helpers import task
from integrations.conformance import Conformance, compressing
from integrations.functions import FUNCTIONS

pytest.importorskip("strands", reason="scripts/test-integrations strands")

from strands import Agent, tool
from strands.agent import NullConversationManager
from strands.models import Model
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel

from focusctx.integrations.plug import Plug, Source
from focusctx.integrations.strands import FocusPlugin


class TestStrands(Conformance):
    name = "strands"
    modes = ("responses", "chat stream", "anthropic async")
    imports = ("strands",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        agent = Agent(
            model(mode, url),
            tools=[tool(function) for function in FUNCTIONS],
            plugins=[] if focus is None else [FocusPlugin(focus)],
            conversation_manager=NullConversationManager(),
            callback_handler=None,
        )
        if "stream" in mode:
            result = asyncio.run(streamed(agent))
        else:
            result = asyncio.run(agent.invoke_async(task.TASK)) if "async" in mode else agent(task.TASK)
        return str(result).strip(), plain(agent.messages)


async def streamed(agent: Agent) -> Any:
    return [event async for event in agent.stream_async(task.TASK)][-1]["result"]


def model(mode: str, url: str) -> Any:
    if "anthropic" in mode:
        return AnthropicModel(client_args={"base_url": url, "api_key": "none"}, model_id="scripted", max_tokens=1000)
    kind = OpenAIResponsesModel if mode == "responses" else OpenAIModel
    return kind(client_args={"base_url": f"{url}/v1", "api_key": "none"}, model_id="scripted")


def plain(messages: list[Any]) -> list[Any]:
    return [{key: message[key] for key in ("role", "content")} for message in messages]


class Recording(Model):
    """Says it is done, whatever it is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: list[Any], *given: Any, **more: Any) -> AsyncIterator[Any]:
        self.sent = messages
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Done."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def test_messages_of_all_kinds() -> None:
    """Results go from a message whose other blocks stay, marks go with their block, and the roles take turns."""
    mark = {"cachePoint": {"type": "default"}}
    picture = {"image": {"format": "png", "source": {"bytes": b"a picture"}}}
    history: list[Any] = [{"role": "user", "content": [{"text": "Look."}, picture, mark]}]
    for step in range(12):
        use = {"toolUse": {"toolUseId": f"call_{step}", "name": "look", "input": {"step": step}}}
        thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "signed"}}}
        history.append({"role": "assistant", "content": [thought, {"text": f"Step {step}."}, use]})
        seen: list[Any] = [{"text": f"Side {step} is grey. " * 60}, {"json": {"side": step}}, picture]
        result = {"toolResult": {"toolUseId": f"call_{step}", "status": "success", "content": seen}}
        history.append({"role": "user", "content": [result, mark, *([{"text": "And behind."}] if step == 2 else [])]})
    history.append({"role": "assistant", "content": [{"text": "All seen."}]})
    model = Recording()
    session = Focus("offline", budget=1500, levels=False, target=None).session(recall=True)
    agent = Agent(
        model,
        messages=copy.deepcopy(history),
        plugins=[FocusPlugin(session)],
        conversation_manager=NullConversationManager(),
        callback_handler=None,
    )
    agent("Go on.")

    assert plain(agent.messages)[: len(history)] == history
    assert all(before["role"] != after["role"] for before, after in pairwise(model.sent))
    blocks = [block for message in model.sent for block in message["content"]]
    calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    assert 0 < len(calls) < 12
    assert [result["toolUseId"] for result in results] == calls
    assert sum("cachePoint" in block for block in blocks) == len(calls) + 1
    words = [block for message in model.sent if message["role"] == "user" for block in message["content"]]
    texts = [block["text"] for block in words if "text" in block]
    assert texts[1].startswith("[Left out to save space")
    assert [texts[0], *texts[2:]] == ["Look.", "And behind.", "Go on."]


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusPlugin(plug).focusctx is plug
