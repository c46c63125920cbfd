"""LangChain: an agent with middleware, invoked, streamed and async, with a checkpoint."""

from typing import Any

import pytest
from pydantic import BaseModel

from helpers import task
from integrations.conformance import BUDGET, Conformance, compressing, moved

pytest.importorskip("langchain", reason="scripts/test-integrations langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from focusctx.integrations.langchain import FocusMiddleware
from focusctx.integrations.plug import Source
from helpers.provider import Call, Provider, Received, Say
from integrations.graphs import DIFFERENT, graph_run, tools


class TestLangChain(Conformance):
    name = "langchain"
    modes = ("invoke", "ainvoke", "stream", "anthropic")
    imports = ("langchain.agents.middleware",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        middleware = [] if focus is None else [FocusMiddleware(focus)]
        agent = create_agent(chat(mode, url), tools(), middleware=middleware, checkpointer=InMemorySaver())
        return graph_run(agent, mode)


def chat(mode: str, url: str) -> Any:
    if mode == "anthropic":  # content blocks and thinking, where OpenAI's messages have text
        return ChatAnthropic(model="scripted", base_url=url, api_key="none")
    return ChatOpenAI(model="scripted", base_url=f"{url}/v1", api_key="none", streaming=mode == "stream")


CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 300}
ASKED: Any = {"messages": [{"role": "user", "content": task.TASK}]}


def test_a_human_in_the_loop_with_a_checkpointer() -> None:
    """The run stops at every fifth page and is resumed from its checkpoint: one conversation, moved at events only."""
    histories = []
    focused = FocusMiddleware(compressing())
    for own in ([], [focused]):
        with Provider(task.model) as provider:
            ask = HumanInTheLoopMiddleware(interrupt_on={"trace_lot": True})
            model, saver = chat("invoke", provider.url), InMemorySaver()
            agent = create_agent(model, tools(), middleware=[ask, *own], checkpointer=saver)
            state = agent.invoke(ASKED, CONFIG)
            stops = 0
            while "__interrupt__" in state:
                stops += 1
                agent = create_agent(model, tools(), middleware=[ask, *own], checkpointer=saver)
                state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
            assert (state["messages"][-1].text, stops, provider.rejected) == (task.FINAL, task.STEPS // 5, [])
            histories.append([message.model_dump(exclude=DIFFERENT) for message in state["messages"]])
            requests = list(provider.received)
    assert histories[0] == histories[1]
    (conversation,) = focused.focusctx.conversations
    assert conversation.id == "1"
    assert moved(requests) == sum(event.happened for event in conversation.events) >= 2


class Report(BaseModel):
    """The audit's result."""

    pages: int


def test_structured_output() -> None:
    def model(received: Received) -> Say:
        said = task.model(received)
        return said if said.calls else Say("", (Call("Report", {"pages": 30}),))

    with Provider(model) as provider:
        middleware = [FocusMiddleware(compressing())]
        agent = create_agent(
            chat("invoke", provider.url), tools(), middleware=middleware, response_format=ToolStrategy(Report)
        )
        state = agent.invoke(ASKED, {"recursion_limit": 300})
        assert (state["structured_response"], provider.rejected) == (Report(pages=30), [])
        assert len(provider.received[-1].messages) < len(state["messages"]) / 2


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("counter", "is_cut"), [({}, True), ({"token_counter": lambda messages: 0}, False)])
def test_summaries_beside_it(counter: Any, is_cut: bool, is_first: bool) -> None:
    """LangChain's middleware counts the state, in any order. Told to count nothing it goes by what was really sent."""
    with Provider(task.model) as provider:
        model = chat("invoke", provider.url)
        summaries = SummarizationMiddleware(model, trigger=("tokens", 2 * BUDGET), **counter)
        middleware = [summaries, FocusMiddleware(compressing())]
        agent = create_agent(model, tools(), middleware=middleware if is_first else middleware[::-1])
        state = agent.invoke(ASKED, {"recursion_limit": 300})
    is_whole = all(f"Page {step} of" in str(state["messages"]) for step in range(1, task.STEPS + 1))
    assert is_whole is not is_cut


def test_summaries_go_by_what_was_sent() -> None:
    """So they still come if a view outgrows their trigger."""
    with Provider(task.model) as provider:
        model = chat("invoke", provider.url)
        summaries = SummarizationMiddleware(model, trigger=("tokens", BUDGET // 2), token_counter=lambda messages: 0)
        agent = create_agent(model, tools(), middleware=[summaries, FocusMiddleware(compressing())])
        state = agent.invoke(ASKED, {"recursion_limit": 300})
    assert f"Page 1 of {task.STEPS}" not in str(state["messages"])
