"""smolagents: the tool-calling agent, run and streamed, and the code agent."""

import json
import re
from typing import Any

import pytest

from helpers import task
from helpers.provider import Provider, Received, Say
from integrations.conformance import Conformance, compressing, moved
from integrations.functions import FUNCTIONS

pytest.importorskip("smolagents", reason="scripts/test-integrations smolagents")

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from focusctx.integrations.plug import Plug, Source
from focusctx.integrations.smolagents import FocusedCodeAgent, FocusedToolCallingAgent


class Model(OpenAIModel):
    """An answer without calls is the final one."""

    def parse_tool_calls(self, message: Any) -> Any:
        function = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": message.content})
        message.tool_calls = [ChatMessageToolCall(function=function, id="final", type="function")]
        return message


def settings(url: str, **more: Any) -> dict[str, Any]:
    model = Model("scripted", api_base=f"{url}/v1", api_key="none")
    return {"model": model, "tools": [tool(one) for one in FUNCTIONS], "verbosity_level": LogLevel.OFF, **more}


class TestSmolagents(Conformance):
    name = "smolagents"
    modes = ("run", "stream")
    imports = ("smolagents",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        given = settings(url, stream_outputs=mode == "stream", max_steps=50)
        agent = ToolCallingAgent(**given) if focus is None else FocusedToolCallingAgent(**given, focus=focus)
        answer = agent.run(task.TASK)
        different = ("timing", "token_usage", "model_output_message")
        steps = [{k: v for k, v in step.items() if k not in different} for step in agent.memory.get_succinct_steps()]
        return answer, steps


def test_a_code_agent_loses_whole_steps_and_no_plan_is_left_without_its_end() -> None:
    """Its observations are user messages, and a plan is followed by one that says to carry it out."""

    def model(received: Received) -> Say:
        done = max([0, *map(int, re.findall(r"Page (\d+) of", received.raw.decode()))])
        if "<end_plan>" in str(received.body.get("stop")):
            return Say(f"Read on after page {done}.")
        code = f"print(read_page({done + 1}))" if done < 20 else "final_answer('All is read.')"
        return Say(f"Page {done + 1} is next.\n<code>\n{code}\n</code>")

    with Provider(model) as provider:
        agent = FocusedCodeAgent(**settings(provider.url, planning_interval=3), focus=compressing(), max_steps=50)
        assert agent.run("Read the first twenty pages.") == "All is read."
        assert moved(provider.received)
        for request in provider.received:
            text = json.dumps(request.messages[1:])
            answers = ("Observation:\\n", "Error:\\n")
            assert text.count("Calling tools:") == sum(map(text.count, answers))
            assert text.count("carry out this plan.") == text.count("Here are the facts I know")
        plans = [request for request in provider.received if "<end_plan>" in str(request.body.get("stop"))]
        assert len(plans) == 7
        sizes = [len(request.raw) for request in plans[1:]]  # the first is made before there is any history
        assert max(sizes) < 2 * sizes[0]
        assert len(agent.memory.steps) == 1 + 21 + 7


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusedCodeAgent(**settings("http://127.0.0.1"), focus=plug).focusctx is plug
