"""LangGraph: the prebuilt agent with the hook, and a graph of one's own with it as a node."""

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from helpers import task
from helpers.provider import Provider
from integrations.conformance import Conformance, compressing, moved

pytest.importorskip("langgraph.prebuilt", reason="scripts/test-integrations langgraph")

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

from focusctx.integrations.langgraph import FocusMessages
from focusctx.integrations.plug import Source
from integrations.graphs import graph_run, tools


class TestLangGraph(Conformance):
    name = "langgraph"
    modes = ("invoke", "ainvoke", "stream")
    imports = ("langgraph.prebuilt",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        model = ChatOpenAI(model="scripted", base_url=f"{url}/v1", api_key="none", streaming=mode == "stream")
        prompt = None if focus is None else FocusMessages(focus)
        return graph_run(create_react_agent(model, tools(), prompt=prompt, checkpointer=InMemorySaver()), mode)


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]


def own_graph(url: str, shorter: Callable[[Any], Any], saver: Any) -> Any:
    model = ChatOpenAI(model="scripted", base_url=f"{url}/v1", api_key="none").bind_tools(tools())
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [model.invoke(shorter(state["messages"]))]})
    graph.add_node("tools", ToolNode(tools()))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def test_a_node_calls_it_with_messages_and_the_checkpoints_do_not_grow() -> None:
    stored = []
    focused = FocusMessages(compressing())
    for shorter in (list, focused):
        saver = InMemorySaver()
        with Provider(task.model) as provider:
            answer, history = graph_run(own_graph(provider.url, shorter, saver), "invoke")
            assert answer == task.FINAL
        stored.append(sum(len(blob[1]) for blob in saver.blobs.values()))
    assert len(history) > len(provider.received[-1].messages)
    assert moved(provider.received)
    assert stored[1] < 1.02 * stored[0]
    assert [conversation.id for conversation in focused.focusctx.conversations] == ["1"]
