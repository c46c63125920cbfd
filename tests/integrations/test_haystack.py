"""Haystack: an agent with the chat generator, sync, async and streamed, over chat completions and responses."""

import asyncio
import os
from typing import Any

import pytest

from helpers import task
from integrations.conformance import Conformance, compressing

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack", reason="scripts/test-integrations haystack")

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator, OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall
from haystack.tools import Tool
from haystack.utils import Secret

from focusctx.integrations.haystack import FocusChatGenerator
from focusctx.integrations.plug import Plug, Source


def tool(one: task.Tool) -> Tool:
    def call(**arguments: Any) -> str:
        return task.run_tool(one.name, arguments)

    return Tool(name=one.name, description=one.description, parameters=one.schema, function=call)


class TestHaystack(Conformance):
    name = "haystack"
    modes = ("run", "run_async", "stream", "responses")
    imports = ("haystack", "haystack.tools")

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        kind = OpenAIResponsesChatGenerator if mode == "responses" else OpenAIChatGenerator
        generator: Any = kind(model="scripted", api_base_url=f"{url}/v1", api_key=Secret.from_token("none"))
        generator = generator if focus is None else FocusChatGenerator(generator, focus)
        callback = (lambda _: None) if mode == "stream" else None
        agent = Agent(chat_generator=generator, tools=[tool(one) for one in task.TOOLS], streaming_callback=callback)
        given = [ChatMessage.from_user(task.TASK)]
        done = asyncio.run(agent.run_async(given)) if mode == "run_async" else agent.run(given)
        return done["last_message"].text, [plain(message) for message in done["messages"]]


def plain(message: ChatMessage) -> dict[str, Any]:
    return {key: value for key, value in message.to_dict().items() if key != "meta"}


def test_it_is_a_component_of_any_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_component("llm", FocusChatGenerator(MockChatGenerator(), compressing()))
    replies = pipeline.run({"llm": {"messages": [ChatMessage.from_user("Hello?")]}})["llm"]["replies"]
    assert replies[0].text == "Hello?"


def test_pictures_in_results_are_no_obstacle() -> None:
    call = ToolCall("look", {}, id="1")
    picture = ImageContent("aGVsbG8=", mime_type="image/png", validation=False)
    turn, result = ChatMessage.from_assistant(tool_calls=[call]), ChatMessage.from_tool([picture], origin=call)
    seen: list[ChatMessage] = []

    def answer(messages: list[ChatMessage], *_: Any) -> str:
        seen.extend(messages)
        return "Yes."

    history = [ChatMessage.from_user("Look."), *[turn, result] * 20]
    FocusChatGenerator(MockChatGenerator(response_fn=answer), compressing()).run(history)
    results = [message.tool_call_result for message in seen if message.tool_call_result]
    pictures = [result for result in results if result.result == [picture]]
    assert 1 <= len(pictures) < 3
    assert {result.result for result in results if result not in pictures} <= {"[… image or file left out]"}
    assert seen[0] == history[0]
    assert seen[-1] == history[-1]


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusChatGenerator(MockChatGenerator(), plug).focusctx is plug
