"""OpenHands SDK: a conversation with a condenser, run, run async, and streamed."""

import asyncio
import copy
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

import pytest

from helpers import task
from helpers.provider import Provider, Say
from integrations.conformance import Conformance, compressing, moved

os.environ |= {"OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
pytest.importorskip("openhands.sdk", reason="scripts/test-integrations openhands")

from openhands.sdk import LLM, Action, Agent, Conversation, Observation, Tool, ToolDefinition, register_tool
from openhands.sdk.event import ConversationStateUpdateEvent
from openhands.sdk.tool import ToolExecutor
from pydantic import Field

from focusctx.integrations.openhands import FocusCondenser
from focusctx.integrations.plug import Plug, Source


class ReadPageAction(Action):
    page: int


class TraceLotAction(Action):
    page: int
    lot: str


class VerifyBalanceAction(Action):
    page: int
    expected: int


class Entry(Observation):
    pass


class Executor(ToolExecutor[Action, Entry]):
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, action: Action, conversation: Any = None) -> Entry:
        try:
            return Entry.from_text(task.run_tool(self.name, action.model_dump()))
        except task.ToolFailure as failure:
            raise ValueError(str(failure)) from failure


class LedgerTool(ToolDefinition[Action, Entry]):
    takes: ClassVar[type[Action]]

    @classmethod
    def create(cls, *_: Any, **__: Any) -> Sequence[Self]:
        what = {"description": "Look into the ledger.", "action_type": cls.takes, "observation_type": Entry}
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
        condenser = None if focus is None else FocusCondenser(focus=focus)
        conversation = opened(url, condenser, stream=mode == "stream")
        conversation.send_message(task.TASK)
        if mode == "arun":
            asyncio.run(conversation.arun())
        else:
            conversation.run()
        messages = said(conversation)
        return messages[-1]["content"][0]["text"], messages


def opened(url: str, condenser: FocusCondenser | None, *, stream: bool = False, **more: Any) -> Any:
    """The conversation of an agent on that provider."""
    llm = LLM(model="openai/scripted", base_url=f"{url}/v1", api_key="none", stream=stream)
    tools = [Tool(name=tool.name) for tool in task.TOOLS]
    agent = Agent(llm=llm, tools=tools, include_default_tools=[], condenser=condenser)
    settings = {"visualizer": None, "token_callbacks": [lambda _: None], "conversation_id": UUID(int=1)}
    return Conversation(agent, workspace=".", **settings, **more)


def said(conversation: Any) -> list[dict[str, Any]]:
    """The texts of all its events."""
    events = [event for event in conversation.state.events if not isinstance(event, ConversationStateUpdateEvent)]
    return [event.to_llm_message().model_dump(mode="json") for event in events]


def test_a_saved_conversation_goes_on_with_the_same_view(tmp_path: Path) -> None:
    calls = itertools.count(1)
    session = compressing().session()
    with Provider(lambda received: Say("Wait.") if next(calls) == 20 else task.model(received)) as provider:
        for words in (task.TASK, "Go on."):
            conversation = opened(provider.url, FocusCondenser(focus=session), persistence_dir=tmp_path)
            conversation.send_message(words)
            conversation.run()
            conversation.close()
        assert said(conversation)[-1]["content"][0]["text"] == task.FINAL
        assert len(said(conversation)) == 1 + 2 + 39 + 39 + 2
        assert moved(provider.received) == sum(event.happened for event in session.events) > 0


def test_a_copy_has_the_same_focus_and_goes_on_with_what_was_decided() -> None:
    condenser = FocusCondenser(focus=compressing())
    for copied in (copy.deepcopy(condenser), condenser.model_copy(deep=True)):
        assert copied is not condenser
        assert copied.focus is condenser.focus
        assert copied.focusctx is condenser.focusctx


class Found(FocusCondenser):
    """Has its focus wherever it is made."""

    focus: Any = Field(default_factory=compressing, exclude=True)


@pytest.mark.parametrize(("condenser", "compressed"), [(FocusCondenser(focus=compressing()), False), (Found(), True)])
def test_a_fork_goes_on(condenser: FocusCondenser, compressed: bool) -> None:
    """A fork's agent is made again from what can be written down."""
    with Provider(task.model) as provider:
        conversation = opened(provider.url, condenser)
        conversation.send_message(task.TASK)
        fork = conversation.fork()
        fork.send_message("Go on.")
        fork.run()
        assert said(fork)[-1]["content"][0]["text"] == task.FINAL
        assert bool(moved(provider.received)) is compressed


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusCondenser(focus=plug).focusctx is plug
