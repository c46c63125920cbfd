"""CrewAI: an agent by itself, sync, async and streamed, and one in a crew."""

import asyncio
import copy
import os
from typing import Any

import pytest

from helpers import task
from helpers.provider import Provider, Say
from integrations.conformance import Conformance, compressing
from integrations.functions import FUNCTIONS

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true"}
pytest.importorskip("crewai", reason="scripts/test-integrations crewai")

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from focusctx.integrations.crewai import focused
from focusctx.integrations.plug import Source


class TestCrewAI(Conformance):
    name = "crewai"
    modes = ("kickoff", "kickoff_async", "stream", "crew")
    imports = ("crewai",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        llm = LLM("openai/gpt-4.1", base_url=f"{url}/v1", api_key="none", stream=mode == "stream")
        agent = auditor(llm if focus is None else focused(llm, focus))
        if mode == "crew":
            work = Task(description=task.TASK, expected_output="The total.", agent=agent)
            done = Crew(agents=[agent], tasks=[work]).kickoff().tasks_output[0]
        elif mode == "kickoff_async":
            done = asyncio.run(agent.kickoff_async(task.TASK))
        else:
            done = agent.kickoff(task.TASK)
        return done.raw, [dict(message) for message in done.messages]


def auditor(llm: Any) -> Agent:
    tools = [tool(function) for function in FUNCTIONS]
    return Agent(role="Auditor", goal="Audit.", backstory="You audit.", llm=llm, tools=tools, max_iter=100)


def test_crewai_sums_up_only_what_would_not_fit_when_sent() -> None:
    """The model has 8,192 tokens; the whole history has twice as many."""
    with Provider(task.model) as provider:
        llm = LLM("openai/gpt-4", base_url=f"{provider.url}/v1", api_key="none")
        done = auditor(focused(llm, compressing())).kickoff(task.TASK)
        assert done.raw == task.FINAL
        assert len(done.messages) > 70


def test_copies_that_crews_make_are_focused_too() -> None:
    llm = focused(LLM("openai/gpt-4.1", api_key="none"), compressing())
    assert type(Crew(agents=[auditor(llm)], tasks=[]).copy().agents[0].llm) is type(llm)


def test_settings_changed_on_it_hold() -> None:
    with Provider(lambda received: Say("Yes.")) as provider:
        llm = copy.copy(focused(LLM("openai/gpt-4.1", base_url=f"{provider.url}/v1", api_key="none"), compressing()))
        llm.temperature = 0.7
        assert llm.call([{"role": "user", "content": "Hello?"}]) == "Yes."
        assert provider.received[0].body["temperature"] == 0.7
        assert len(llm.focusctx.conversations) == 1
