"""OpenHands SDK: a conversation with a condenser, run, run async, and streamed."""

import asyncio
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

import pytest

import task
from integrations.conformance import Conformance, compressing, moved
from provider import Provider, Say

os.environ |= {"OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
pytest.importorskip("openhands.sdk", reason="scripts/test-integrations openhands")

from openhands.sdk import LLM, Action, Agent, Conversation, Observation, Tool, ToolDefinition, register_tool
from openhands.sdk.context.view import View
from openhands.sdk.event import ConversationStateUpdateEvent
from openhands.sdk.tool import ToolExecutor

from focusctx.integrations.openhands import FocusCondenser
from focusctx.integrations.plug import Source


class ReadPageAction(Action):
    page: int


class TraceLotAction(Action):
    page: int
    lot: str


class VerifyBalanceAction(Action):
    page: int
    expected: int


class Found(Observation):
    pass


class Executor(ToolExecutor[Action, Found]):
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, action: Action, conversation: Any = None) -> Found:
        try:
            return Found.from_text(task.run_tool(self.name, action.model_dump()))
        except task.ToolFailure as failure:
            raise ValueError(str(failure)) from failure


class LedgerTool(ToolDefinition[Action, Found]):
    takes: ClassVar[type[Action]]

    @classmethod
    def create(cls, *_: Any, **__: Any) -> Sequence[Self]:
        what = {"description": "Look into the ledger.", "action_type": cls.takes, "observation_type": Found}
        return [cls(executor=Executor(cls.name), **what)]


class ReadPageTool(LedgerTool):
    takes = ReadPageAction


class TraceLotTool(LedgerTool):
    takes = TraceLotAction


class VerifyBalanceTool(LedgerTool):
    takes = VerifyBalanceAction


for kind in (ReadPageTool, TraceLotTool, VerifyBalanceTool):
    register_tool(kind.name, kind)


class TestOpenHands(Conformance):
    name = "openhands"
    modes = ("run", "arun", "stream")
    imports = ("openhands.sdk",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        conversation = opened(url, focus, stream=mode == "stream")
        conversation.send_message(task.TASK)
        if mode == "arun":
            asyncio.run(conversation.arun())
        else:
            conversation.run()
        messages = said(conversation)
        return messages[-1]["content"][0]["text"], messages


def opened(url: str, focus: Source | None, *, stream: bool = False, **more: Any) -> Any:
    """The conversation of an agent on that provider."""
    llm = LLM(model="openai/scripted", base_url=f"{url}/v1", api_key="none", stream=stream)
    condenser = None if focus is None else FocusCondenser(focus=focus)
    tools = [Tool(name=tool.name) for tool in task.TOOLS]
    agent = Agent(llm=llm, tools=tools, include_default_tools=[], condenser=condenser)
    settings = {"visualizer": None, "token_callbacks": [lambda _: None], "conversation_id": UUID(int=1)}
    return Conversation(agent, workspace=".", **settings, **more)


def said(conversation: Any) -> list[dict[str, Any]]:
    """What its events say, all of them."""
    events = [event for event in conversation.state.events if not isinstance(event, ConversationStateUpdateEvent)]
    return [event.to_llm_message().model_dump(mode="json") for event in events]


def test_a_saved_conversation_goes_on_with_the_same_view(tmp_path: Path) -> None:
    calls = itertools.count(1)
    session = compressing().session()
    with Provider(lambda received: Say("Wait.") if next(calls) == 20 else task.model(received)) as provider:
        for words in (task.TASK, "Go on."):
            conversation = opened(provider.url, session, persistence_dir=tmp_path)
            conversation.send_message(words)
            conversation.run()
            conversation.close()
        assert said(conversation)[-1]["content"][0]["text"] == task.FINAL
        assert len(said(conversation)) == 1 + 2 + 39 + 39 + 2
        assert moved(provider.received) == sum(event.happened for event in session.events) > 0


def test_a_condenser_without_focus_sends_all() -> None:
    saved = FocusCondenser(focus=compressing()).model_dump()
    view = View(events=[])
    assert FocusCondenser.model_validate(saved).condense(view) is view
