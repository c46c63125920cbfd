"""Agno: an agent with a database, run, streamed and async."""

import asyncio
import copy
import pickle
from typing import Any

import pytest

from helpers import task
from integrations.conformance import Conformance, compressing
from integrations.functions import FUNCTIONS

pytest.importorskip("agno", reason="scripts/test-integrations agno")

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat

from focusctx.integrations.agno import focused
from focusctx.integrations.plug import Source
from helpers.provider import Provider, Say


class TestAgno(Conformance):
    name = "agno"
    modes = ("run", "stream", "arun", "astream")
    imports = ("agno.models.base",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        model = OpenAIChat("scripted", base_url=f"{url}/v1", api_key="none")
        model = model if focus is None else focused(model, focus)
        agent = Agent(model=model, tools=FUNCTIONS, db=InMemoryDb(), session_id="1", telemetry=False)
        asyncio.run(arun(agent, mode)) if mode.startswith("a") else run(agent, mode)
        messages = agent.get_session_messages()
        fields = {"role", "content", "tool_calls", "tool_call_id", "reasoning_content"}
        return messages[-1].content, [message.model_dump(include=fields) for message in messages]


def run(agent: Agent, mode: str) -> None:
    if mode == "run":
        agent.run(task.TASK)
    else:
        list(agent.run(task.TASK, stream=True))


async def arun(agent: Agent, mode: str) -> None:
    if mode == "arun":
        await agent.arun(task.TASK)
    else:
        [_ async for _ in agent.arun(task.TASK, stream=True)]


def test_it_is_a_model_of_the_same_class() -> None:
    model = OpenAIChat("scripted", api_key="none")
    changed = focused(model, compressing())
    assert isinstance(changed, OpenAIChat)
    assert changed.to_dict() == model.to_dict()
    assert type(model) is OpenAIChat


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_focused_and_settings_changed_on_them_hold(copied: Any) -> None:
    with Provider(lambda received: Say("Yes.")) as provider:
        model = copied(focused(OpenAIChat("scripted", base_url=f"{provider.url}/v1", api_key="none"), compressing()))
        model.temperature, model.id = 0.7, "another"
        Agent(model=model, session_id="1", user_id="me", telemetry=False).run("Hello?")
        assert (provider.received[0].body["temperature"], provider.received[0].body["model"]) == (0.7, "another")
        (conversation,) = model.focusctx.conversations
        assert conversation.id.startswith("me/1/")
