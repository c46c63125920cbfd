"""Microsoft Agent Framework: an agent with chat middleware, run and streamed, over chat completions and responses."""

import asyncio
from typing import Any

import pytest

from helpers import task
from helpers.provider import Provider
from integrations.conformance import Conformance, compressing
from integrations.functions import FUNCTIONS

pytest.importorskip("agent_framework", reason="scripts/test-integrations agent-framework")

from agent_framework import Agent, FunctionTool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from focusctx.integrations.agent_framework import FocusMiddleware
from focusctx.integrations.plug import Plug, Source

TOOLS = [FunctionTool(name=one.__name__, description=str(one.__doc__), func=one) for one in FUNCTIONS]


class TestAgentFramework(Conformance):
    name = "agent_framework"
    modes = ("run", "stream", "responses")
    imports = ("agent_framework._middleware",)  # the package itself imports as little as it can

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        middleware = [] if focus is None else [FocusMiddleware(focus)]
        return asyncio.run(agent_run(mode, url, middleware))


async def agent_run(mode: str, url: str, middleware: list[Any], **options: Any) -> tuple[str, list[Any]]:
    kind = OpenAIChatClient if mode == "responses" else OpenAIChatCompletionClient
    config = {"max_iterations": 100, "include_detailed_errors": True}
    client = kind("scripted", base_url=f"{url}/v1", api_key="none", function_invocation_configuration=config)
    options = {"store": False, **options} if mode == "responses" else options
    agent = Agent(client, tools=TOOLS, middleware=middleware, default_options=options)
    session = agent.create_session()
    if mode == "stream":
        stream = agent.run(task.TASK, session=session, stream=True)
        async for _ in stream:
            pass
        answer = await stream.get_final_response()
    else:
        answer = await agent.run(task.TASK, session=session)
    history = session.state.get("in_memory", {"messages": []})["messages"]
    return answer.messages[-1].text, [plain(message) for message in history]


def plain(message: Any) -> dict[str, Any]:
    contents = message.to_dict()["contents"]
    contents = [{key: value for key, value in content.items() if key != "id"} for content in contents]
    return {"role": message.role, "contents": contents}


def test_a_history_that_the_service_holds_is_left_alone() -> None:
    with Provider(task.model) as provider:
        answer, _ = asyncio.run(agent_run("responses", provider.url, [FocusMiddleware(compressing())], store=True))
        assert answer == task.FINAL
        assert all(request.body["previous_response_id"] for request in provider.received[1:])


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusMiddleware(plug).focusctx is plug
