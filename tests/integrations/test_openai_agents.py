"""OpenAI's Agents SDK: Responses and chat models, streamed and not, its sessions, and agents that call agents."""

import asyncio
from typing import Any

import pytest

import task
from integrations.conformance import Conformance, compressing, moved

pytest.importorskip("agents", reason="scripts/test-integrations openai_agents")

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from focusctx import Focus
from focusctx.integrations.openai_agents import FocusSession, focus_filter
from focusctx.integrations.plug import Source
from focusctx.session.session import Session
from integrations.functions import FUNCTIONS
from provider import Call, Provider, Received, Say

set_tracing_disabled(True)  # traces go to OpenAI


class TestOpenAIAgents(Conformance):
    name = "openai_agents"
    modes = ("responses session", "chat", "chat stream")
    imports = ("agents",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        return asyncio.run(done(mode, url, RunConfig(call_model_input_filter=focus and focus_filter(focus))))


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
    sessions: list[Session] = []

    def session() -> Session:
        sessions.append(compressing().session())
        return sessions[-1]

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
            config = RunConfig(call_model_input_filter=focus_filter(session))
            result = await Runner.run(first, "Have the ledger audited.", run_config=config, max_turns=60)
        assert (result.final_output, provider.rejected) == (task.FINAL, [])
    assert len(sessions) == conversations
    assert sum(event.happened for one in sessions for event in one.events) >= 2


async def test_a_history_on_the_server_is_left_alone() -> None:
    async def bodies(**filter: Any) -> list[Any]:
        more: dict[str, Any] = {"auto_previous_response_id": True, "max_turns": 60}
        with Provider(task.model) as provider:
            async with client_of(provider.url) as client:
                await Runner.run(auditor(client), task.TASK, run_config=RunConfig(**filter), **more)
            return [received.body for received in provider.received]

    assert await bodies(call_model_input_filter=focus_filter(Focus("offline", budget=100))) == await bodies()


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
    assert len(await stored.get_items()) == 40
    assert len(requests[-1].messages) < 30
    assert 1 <= moved(requests) <= 5
