"""Pydantic AI: chat and Responses models, run and streamed, beside a history processor, with messages of all kinds."""

import asyncio
from collections.abc import AsyncIterable
from typing import Any

import pytest

from focusctx import Focus
from helpers import task
from integrations.conformance import Conformance, compressing, moved

pytest.importorskip("pydantic_ai", reason="scripts/test-integrations pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, CachePoint, ModelRetry, Tool, UsageLimits
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from focusctx.integrations.plug import Source
from focusctx.integrations.pydantic_ai import FocusHistory
from helpers.provider import Call, Provider, Received, Say

LIMITS = UsageLimits(request_limit=60)
DIFFERENT = {"timestamp", "run_id", "conversation_id", "usage", "provider_details", "provider_url"}


class TestPydanticAI(Conformance):
    name = "pydantic_ai"
    modes = ("responses", "chat", "chat stream")
    imports = ("pydantic_ai",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        # What a history processor returns is the run's history from then on: it must not see a view.
        agent = auditor(mode, url, *([] if focus is None else [FocusHistory(focus)]), ProcessHistory(unchanged))
        return asyncio.run(done(agent, "stream" in mode))


def unchanged(messages: list[Any]) -> list[Any]:
    return messages


def auditor(mode: str, url: str, *capabilities: Any) -> Agent:
    kind = OpenAIResponsesModel if mode == "responses" else OpenAIChatModel
    model = kind("scripted", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    tools = [Tool.from_schema(retried(tool.name), tool.name, tool.description, tool.schema) for tool in task.TOOLS]
    return Agent(model, tools=tools, capabilities=capabilities, system_prompt="You are careful.")


def retried(name: str) -> Any:
    def call(**arguments: Any) -> str:
        try:
            return task.run_tool(name, arguments)
        except task.ToolFailure as failure:
            raise ModelRetry(str(failure)) from failure

    return call


async def done(agent: Agent, stream: bool) -> tuple[str, list[Any]]:
    async with agent:
        result = await agent.run(task.TASK, usage_limits=LIMITS, event_stream_handler=listen if stream else None)
        return result.output, plain(result.all_messages())


async def listen(context: Any, events: AsyncIterable[Any]) -> None:
    async for _ in events:
        pass


def plain(messages: list[Any]) -> list[Any]:
    return without_different(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


def without_different(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_different(item) for key, item in value.items() if key not in DIFFERENT}
    return [without_different(item) for item in value] if isinstance(value, list) else value


async def test_messages_of_all_kinds() -> None:
    """Results go from a request whose other parts stay; so does a turn that a provider's compaction came with."""
    sent: list[Any] = []

    def model(messages: list[Any], info: Any) -> ModelResponse:
        sent.extend(messages)
        return ModelResponse([TextPart("Done.")])

    picture = BinaryContent(b"a picture", media_type="image/png")
    history: list[Any] = [
        ModelRequest([SystemPromptPart("Be careful."), UserPromptPart(["Look.", picture, CachePoint()])])
    ]
    for step in range(12):
        call = ToolCallPart("look", {"step": step}, f"call_{step}")
        summary = [CompactionPart("what was before", provider_name="anthropic")] if step == 1 else []
        history.append(ModelResponse([*summary, ThinkingPart("Hm."), TextPart(f"Step {step}."), call]))
        words = [UserPromptPart("And the other side.")] if step == 2 else []
        result = ToolReturnPart("look", [f"Side {step} is grey. " * 60, picture], f"call_{step}")
        history.append(ModelRequest([*words, result]))
    whole = plain(history)
    session = Focus("offline", budget=1500).session(recall=True)
    agent = Agent(FunctionModel(model), capabilities=[FocusHistory(session)])
    result = await agent.run("Go on.", message_history=history)

    assert plain(result.all_messages())[: len(whole)] == plain(history) == whole
    parts = [part for message in sent for part in message.parts]
    calls = {part.tool_call_id for part in parts if isinstance(part, ToolCallPart)}
    assert 0 < len(calls) < 12
    assert calls == {part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)}
    assert sum(isinstance(part, CompactionPart) for part in parts) == 1
    words = [part.content for part in parts if isinstance(part, UserPromptPart)]
    assert [words[0], *words[2:]] == [["Look.", picture, CachePoint()], "And the other side.", "Go on."]
    assert words[1].startswith("[Left out to save space")
    own = {id(message) for message in history}
    assert sum(isinstance(message, ModelResponse) and id(message) in own for message in sent) == len(calls)


class Report(BaseModel):
    """The audit's result."""

    pages: int


async def test_structured_output_in_a_conversation_of_two_runs() -> None:
    """The second run goes on with the history of the first, and with its conversation."""

    def model(received: Received) -> Say:
        said = task.model(received)
        names = [tool["function"]["name"] for tool in received.body["tools"]]
        return Say("", (Call("final_result", {"pages": 30}),)) if not said.calls and "final_result" in names else said

    focus = FocusHistory(compressing())
    with Provider(model) as provider:
        agent = auditor("chat", provider.url, focus)
        async with agent:
            first = await agent.run(task.TASK, usage_limits=LIMITS)
            again = await agent.run(
                "Now the report.", message_history=first.all_messages(), output_type=Report, usage_limits=LIMITS
            )
        assert (again.output, provider.rejected) == (Report(pages=30), [])
        assert len(provider.received[-1].messages) < 0.7 * len(again.all_messages())
    (conversation,) = focus.focusctx.conversations
    assert conversation.id == first.all_messages()[0].conversation_id
    assert moved(provider.received) == sum(event.happened for event in conversation.events)
