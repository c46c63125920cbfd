"""OpenAI's Agents SDK: Responses and chat models, streamed and not, its sessions, and agents that call agents."""

import asyncio
import json
from typing import Any

import pytest

from helpers import task
from integrations.conformance import BUDGET, Conformance, compressing, moved

pytest.importorskip("agents", reason="scripts/test-integrations openai_agents")

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from agents.handoffs.history import _extract_nested_history_transcript
from openai import AsyncOpenAI

from focusctx import Focus
from focusctx.integrations.openai_agents import FocusFilter, FocusSession
from focusctx.integrations.plug import Source
from helpers.provider import Call, Provider, Received, Say
from integrations.functions import FUNCTIONS

set_trace_processors([])  # traces go to OpenAI


class TestOpenAIAgents(Conformance):
    name = "openai_agents"
    modes = ("responses session", "chat", "chat stream")
    imports = ("agents",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        return asyncio.run(done(mode, url, RunConfig(call_model_input_filter=focus and FocusFilter(focus))))


async def done(mode: str, url: str, config: RunConfig) -> tuple[str, list[Any]]:
    session = SQLiteSession("audit") if "session" in mode else None
    more: dict[str, Any] = {"run_config": config, "session": session, "max_turns": 60}
    async with client_of(url) as client:
        agent = auditor(client, OpenAIChatCompletionsModel if "chat" in mode else OpenAIResponsesModel)
        if "stream" in mode:
            result: Any = Runner.run_streamed(agent, task.TASK, **more)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, task.TASK, **more)
    return result.final_output, await session.get_items() if session else result.to_input_list()


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none")


def auditor(client: AsyncOpenAI, model: Any = OpenAIResponsesModel) -> Agent:
    def say_why(context: Any, error: Exception) -> str:
        return f"It failed: {error}"

    tools: list[Any] = [function_tool(function, failure_error_function=say_why) for function in FUNCTIONS]
    return Agent("auditor", model=model("scripted", client), tools=tools)


@pytest.mark.parametrize(("delegating", "conversations"), [("handoff", 1), ("agent as a tool", 2)])
async def test_other_agents_are_compressed_too(delegating: str, conversations: int) -> None:
    """A handoff goes on with the conversation; an agent that is a tool has one of its own."""
    focus = FocusFilter(compressing())

    def say(received: Received) -> Say:
        names = [tool["name"] for tool in received.body["tools"]]
        if "read_page" in names:
            return task.model(received)
        called = task.FINAL in received.raw.decode()
        return Say(task.FINAL) if called else Say("The auditor does it.", (Call(names[0], {"input": task.TASK}),))

    with Provider(say) as provider:
        async with client_of(provider.url) as client:
            other = auditor(client)
            first = Agent("first", model=other.model)
            if delegating == "handoff":
                first.handoffs.append(other)
            else:
                first.tools.append(other.as_tool("audit", "Have it audited.", max_turns=60))
            config = RunConfig(call_model_input_filter=focus)
            result = await Runner.run(first, "Have the ledger audited.", run_config=config, max_turns=60)
        assert (result.final_output, provider.rejected) == (task.FINAL, [])
    assert len(focus.focusctx.conversations) == conversations
    assert sum(event.happened for event in focus.focusctx.events) >= 2


async def test_a_history_on_the_server_is_left_alone() -> None:
    async def bodies(**filter: Any) -> list[Any]:
        more: dict[str, Any] = {"auto_previous_response_id": True, "max_turns": 60}
        with Provider(task.model) as provider:
            async with client_of(provider.url) as client:
                await Runner.run(auditor(client), task.TASK, run_config=RunConfig(**filter), **more)
            return [received.body for received in provider.received]

    assert await bodies(call_model_input_filter=FocusFilter(Focus("offline", budget=100))) == await bodies()


async def test_a_session_of_many_runs() -> None:
    """Each run begins with a view of what is stored."""
    words = "The pump hums, the valve is shut, the gauge says forty. " * 20
    stored = SQLiteSession("chat")
    session = FocusSession(stored, compressing())
    with Provider(lambda received: Say(words)) as provider:
        async with client_of(provider.url) as client:
            agent = Agent("clerk", model=OpenAIResponsesModel("scripted", client))
            for number in range(20):
                await Runner.run(agent, f"Note {number}.", session=session)
        requests = provider.received
    items = await stored.get_items()
    assert len(items) == 40
    assert len(requests[-1].raw) < 0.5 * len(json.dumps(items))
    assert 1 <= moved(requests) <= 5


@pytest.mark.parametrize("levels", [False, True])
async def test_a_history_that_is_nested_at_a_handoff_is_read_as_steps(levels: bool) -> None:
    """The second agent gets the first one's steps as lines of one message."""

    async def run(focus: Source | None) -> list[Received]:
        def say(received: Received) -> Say:
            said = task.model(received)
            is_due = f"page {task.STEPS // 2 + 1}." in said.text and "first agent" in str(
                received.body.get("instructions")
            )
            return Say("", (Call("transfer_to_auditor", {}),)) if is_due else said

        with Provider(say) as provider:
            async with client_of(provider.url) as client:
                second = auditor(client)
                first = second.clone(name="first", instructions="You are the first agent.", handoffs=[second])
                config = RunConfig(nest_handoff_history=True, call_model_input_filter=focus and FocusFilter(focus))
                result = await Runner.run(first, task.TASK, run_config=config, max_turns=60)
            assert (result.final_output, provider.rejected) == (task.FINAL, [])
            return provider.received

    plain = await run(None)
    focus = Focus("offline", budget=BUDGET, levels=levels, target=0.5 if levels else None)
    requests = await run(focus.session(recall=levels))
    assert len(requests[-1].raw) < 0.6 * len(plain[-1].raw)
    (nested,) = [one for one in requests[-1].messages if "<CONVERSATION HISTORY>" in str(one.get("content"))]
    (record,) = _extract_nested_history_transcript(nested)[:1]
    assert record["role"] == "user"
    assert record["content"].startswith(task.TASK)
    assert ("Left out to save space" in nested["content"]) == levels
    assert ("[…" in nested["content"]) == levels
    calls = [one for one in _extract_nested_history_transcript(nested) if one.get("type") == "function_call"]
    results = [one for one in _extract_nested_history_transcript(nested) if one.get("type") == "function_call_output"]
    assert [one["call_id"] for one in calls] == [one["call_id"] for one in results]


async def test_the_group_of_a_trace_names_the_conversation() -> None:
    focus = FocusFilter(compressing())
    with Provider(lambda received: Say("Yes.")) as provider:
        async with client_of(provider.url) as client:
            agent = Agent("clerk", model=OpenAIResponsesModel("scripted", client))
            for group in ("one", "two"):
                config = RunConfig(call_model_input_filter=focus, group_id=group)
                await Runner.run(agent, "Hello?", run_config=config)
    assert {conversation.id for conversation in focus.focusctx.conversations} == {"one", "two"}
