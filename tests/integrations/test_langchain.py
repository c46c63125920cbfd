"""LangChain: an agent with middleware, invoked, streamed and async, with a checkpoint."""

from typing import Any

import pytest

from integrations.conformance import Conformance

pytest.importorskip("langchain", reason="scripts/test-integrations langchain")

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from focusctx.integrations.langchain import FocusMiddleware
from focusctx.integrations.plug import Source
from integrations.graphs import graph_run, tools


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
