"""LangGraph: the prebuilt agent with the hook, and a graph of one's own with it as a node."""

from typing import Annotated, Any, TypedDict

import pytest

import task
from integrations.conformance import Conformance, compressing, moved
from provider import Provider

pytest.importorskip("langgraph.prebuilt", reason="scripts/test-integrations langgraph")

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

from focusctx.integrations.langgraph import focus_hook
from focusctx.integrations.plug import Source
from integrations.graphs import graph_run, tools


class TestLangGraph(Conformance):
    name = "langgraph"
    modes = ("invoke", "ainvoke", "stream")
    imports = ("langgraph.prebuilt",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        model = ChatOpenAI(model="scripted", base_url=f"{url}/v1", api_key="none", streaming=mode == "stream")
        hook = None if focus is None else focus_hook(focus)
        return graph_run(create_react_agent(model, tools(), pre_model_hook=hook, checkpointer=InMemorySaver()), mode)


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    llm_input_messages: list[Any]


def test_the_hook_is_a_node_of_any_graph() -> None:
    with Provider(task.model) as provider:
        model = ChatOpenAI(model="scripted", base_url=f"{provider.url}/v1", api_key="none").bind_tools(tools())
        graph = StateGraph(State)
        graph.add_node("focus", focus_hook(compressing()))
        graph.add_node("model", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})
        graph.add_node("tools", ToolNode(tools()))
        graph.add_edge(START, "focus")
        graph.add_edge("focus", "model")
        graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "focus")
        answer, history = graph_run(graph.compile(checkpointer=InMemorySaver()), "invoke")
        assert answer == task.FINAL
        assert len(history) > len(provider.received[-1].messages)
        assert moved(provider.received)
