"""Google's ADK: Responses and chat models, streamed and not, agents as tools, and models whose calls have no ids."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from focusctx import Focus
from helpers import task
from integrations.conformance import BUDGET, Conformance, compressing
from integrations.functions import FUNCTIONS

pytest.importorskip("google.adk", reason="scripts/test-integrations google_adk")

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.integrations.openai import OpenAILlm, OpenAIResponsesLlm
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai.types import Content, FunctionCall, Part

from focusctx.integrations.google_adk import FocusPlugin
from focusctx.integrations.plug import Plug, Source
from helpers.prefixes import is_shortened
from helpers.provider import Call, Provider, Received, Say

DIFFERENT = {"id", "timestamp", "invocation_id", "usage_metadata", "custom_metadata"}


class TestGoogleADK(Conformance):
    name = "google_adk"
    modes = ("responses", "chat", "chat stream")
    imports = ("google.adk.plugins.base_plugin", "google.adk.models.llm_request")

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        kind = OpenAIResponsesLlm if mode == "responses" else OpenAILlm
        agent = auditor(kind(model="scripted", base_url=f"{url}/v1", api_key="none"))
        return asyncio.run(done(agent, [] if focus is None else [FocusPlugin(focus)], "stream" in mode))


def auditor(model: Any) -> LlmAgent:
    return LlmAgent(name="auditor", model=model, tools=FUNCTIONS, on_tool_error_callback=say_why)


def say_why(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
    return {"error": str(error)}


async def done(
    agent: LlmAgent, plugins: list[Any], stream: bool = False, words: Sequence[str] = (task.TASK,)
) -> tuple[str, list[Any]]:
    runner = InMemoryRunner(app=App(name="audit", root_agent=agent, plugins=plugins))
    session = await runner.session_service.create_session(app_name="audit", user_id="one")
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    asked = Content(role="user", parts=[Part(text=text) for text in words])
    answer = ""
    async for event in runner.run_async(user_id="one", session_id=session.id, new_message=asked, run_config=config):
        if event.is_final_response():
            answer = event.content.parts[-1].text
    stored = await runner.session_service.get_session(app_name="audit", user_id="one", session_id=session.id)
    return answer, [event.model_dump(mode="json", exclude=DIFFERENT, exclude_none=True) for event in stored.events]


class Nameless(BaseLlm):
    """Like Gemini, it gets and gives calls without ids."""

    async def generate_content_async(self, request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        sent.append(request.contents)
        pages = re.findall(rf"Page (\d+) of {task.STEPS}", request.contents[-1].model_dump_json())
        done = int(pages[-1]) if pages else 0
        say = task.turn(done + 1)
        calls = [Part(function_call=FunctionCall(name=call.name, args=call.arguments)) for call in say.calls]
        parts = [Part(text=say.text), *calls] if done < task.STEPS else [Part(text=task.FINAL)]
        yield LlmResponse(content=Content(role="model", parts=parts))


sent: list[list[Content]] = []


@pytest.mark.parametrize("place", ["agent", "tool"])
async def test_calls_without_ids(place: str) -> None:
    """They are matched for an agent, and for one that is another's tool."""
    sent.clear()
    agent = auditor(Nameless(model="nameless"))
    if place == "tool":
        agent = LlmAgent(name="first", model=Delegating(model="delegating"), tools=[AgentTool(agent)])
    session = compressing().session()
    answer, _ = await done(agent, [FocusPlugin(session)])
    assert answer == task.FINAL
    assert len(sent) == task.STEPS + 1
    assert len(sent[-1]) < task.STEPS
    assert sum(event.happened for event in session.events) >= 2
    for contents in sent:
        for before, after in pairwise(contents):
            calls = [part.function_call for part in before.parts if part.function_call]
            answers = [part.function_response for part in after.parts if part.function_response]
            assert [call.name for call in calls] == [answer.name for answer in answers]
            assert not any(one.id for one in [*calls, *answers])


class Delegating(BaseLlm):
    """Has its only tool do the task."""

    async def generate_content_async(self, request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        answered = request.contents[-1].parts[0].function_response
        call = FunctionCall(name="auditor", args={"request": "Audit it all."})
        part = Part(text=answered.response["result"]) if answered else Part(function_call=call)
        yield LlmResponse(content=Content(role="model", parts=[part]))


@pytest.mark.parametrize("levels", [False, True])
async def test_after_a_transfer_the_other_agents_steps_can_be_left_out(levels: bool) -> None:
    """ADK tells the second agent about them in messages of the user, whose own words all stay."""
    plain, whole = await transferred([])
    focus = Focus("offline", budget=BUDGET, levels=levels, target=0.5 if levels else None)
    session = focus.session(recall=levels)
    requests, stored = await transferred([FocusPlugin(session)])
    assert stored == whole
    assert len(requests[-1].raw) < 0.6 * len(plain[-1].raw)
    own = [request for request in requests if "You are the second." in request.raw.decode()]
    assert len(own) == 1 + task.STEPS - task.STEPS // 2
    retold = [json.dumps([one for one in request.messages if one["role"] == "user"]) for request in own]
    for text in retold:
        assert levels or text.count(" called tool `") == text.count("` tool returned result:")
        assert text.count("For context: I like grey paper.") == text.count("[clerk] said: Audit the warehouse") == 1
    assert any("` tool returned result:" in text for text in retold)
    assert is_shortened(retold[-1]) == levels


async def transferred(plugins: list[Any]) -> tuple[list[Received], list[Any]]:
    """One agent does the first half of the task, another one the second. The user writes like ADK does."""

    def say(received: Received) -> Say:
        said = task.model(received)
        is_due = f"page {task.STEPS // 2 + 1}." in said.text and "You are the first." in received.raw.decode()
        return Say("Go on.", (Call("transfer_to_agent", {"agent_name": "second"}),)) if is_due else said

    with Provider(say) as provider:
        model = OpenAILlm(model="scripted", base_url=f"{provider.url}/v1", api_key="none")
        more = {"model": model, "tools": FUNCTIONS, "on_tool_error_callback": say_why}
        second = LlmAgent(name="second", instruction="You are the second.", disallow_transfer_to_parent=True, **more)
        first = LlmAgent(name="first", instruction="You are the first.", sub_agents=[second], **more)
        answer, stored = await done(
            first, plugins, words=["For context: I like grey paper.", f"[clerk] said: {task.TASK}"]
        )
        assert (answer, provider.rejected) == (task.FINAL, [])
        return list(provider.received), stored


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusPlugin(plug).focusctx is plug
