"""LlamaIndex: the function agent, streamed and not, an agent that acts in text, and the LLM called by hand."""

import asyncio
import copy
import pickle
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from focusctx import Focus
from helpers import task
from helpers.provider import Call, Provider, Received, Say
from integrations.conformance import BUDGET, Conformance, compressing, moved
from integrations.functions import FUNCTIONS

pytest.importorskip("llama_index.core", reason="scripts/test-integrations llama-index")

from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import call_tool_with_selection
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from focusctx.integrations.llama_index import focused
from focusctx.integrations.plug import Source


def tool(function: Callable[..., str]) -> FunctionTool:
    """With an async form, so that parallel calls end in the order they were made in."""

    @wraps(function)
    async def call(**arguments: Any) -> str:
        return function(**arguments)

    return FunctionTool.from_defaults(function, async_fn=call)


TOOLS = [tool(function) for function in FUNCTIONS]


class TestLlamaIndex(Conformance):
    name = "llama_index"
    modes = ("agent", "streaming agent", "by hand", "streamed by hand")
    imports = ("llama_index.core.llms",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        llm = llm_at(url) if focus is None else focused(llm_at(url), focus)
        if "hand" in mode:
            answer, messages = by_hand(llm, "streamed" in mode)
        else:
            answer, messages = asyncio.run(by_agent(llm, "streaming" in mode))
        return answer, [message.model_dump() for message in messages]


def llm_at(url: str) -> Any:
    able = {"is_chat_model": True, "is_function_calling_model": True}
    return OpenAILike(model="scripted", api_base=f"{url}/v1", api_key="none", **able)


async def by_agent(llm: Any, streaming: bool) -> tuple[str, list[ChatMessage]]:
    """The history is what the agent's memory holds."""
    memory = Memory.from_defaults(token_limit=100_000)
    agent = FunctionAgent(llm=llm, tools=TOOLS, streaming=streaming)
    result = await agent.run(task.TASK, memory=memory, max_iterations=100)
    return str(result), await memory.aget_all()


def by_hand(llm: Any, streamed: bool) -> tuple[str, list[ChatMessage]]:
    history = [ChatMessage(content=task.TASK)]
    while True:
        if streamed:
            *_, response = llm.stream_chat_with_tools(TOOLS, chat_history=history, allow_parallel_tool_calls=True)
        else:
            response = llm.chat_with_tools(TOOLS, chat_history=history, allow_parallel_tool_calls=True)
        history.append(response.message)
        calls = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        for call in calls:
            output = call_tool_with_selection(call, TOOLS)
            more = {"tool_call_id": call.tool_id}
            history.append(ChatMessage(role="tool", content=str(output.content), additional_kwargs=more))
        if not calls:
            return response.message.content, history


def test_steps_written_as_text_are_dropped_too() -> None:
    """The ReAct agent's observations are user messages."""

    def model(received: Received) -> Say:
        done = max([0, *map(int, re.findall(rf"Page (\d+) of {task.STEPS}\b", received.raw.decode()))])
        if done == task.STEPS:
            return Say("Thought: I can answer.\nAnswer: All is read.")
        return Say(f'Thought: Page {done + 1} is next.\nAction: read_page\nAction Input: {{"page": {done + 1}}}')

    with Provider(model) as provider:
        agent = ReActAgent(llm=focused(llm_at(provider.url), compressing()), tools=TOOLS[:1])
        assert str(asyncio.run(agent_run(agent))) == "All is read."
        assert moved(provider.received)


async def agent_run(agent: Any) -> Any:
    return await agent.run("Read all pages.", max_iterations=100)


def test_it_is_an_llm_of_the_same_class() -> None:
    llm = llm_at("http://127.0.0.1")
    changed = focused(llm, compressing())
    assert isinstance(changed, OpenAILike)
    assert changed.to_dict() == llm.to_dict()
    assert type(llm) is OpenAILike


def test_settings_changed_on_it_hold() -> None:
    with Provider(lambda received: Say("Yes.")) as provider:
        llm = focused(llm_at(provider.url), compressing())
        llm.temperature, llm.model = 0.7, "another"
        llm.chat([ChatMessage(content="Hello?")])
        assert (provider.received[0].body["temperature"], provider.received[0].body["model"]) == (0.7, "another")
        assert len(llm.focusctx.conversations) == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda llm: pickle.loads(pickle.dumps(llm))])
def test_it_can_be_copied_and_pickled(copied: Any) -> None:
    history = [ChatMessage(content=task.TASK)]
    for step in range(1, 20):
        history.append(ChatMessage(role="assistant", content=f"Next is page {step}."))
        history.append(ChatMessage(content=task.run_tool("trace_lot", {"page": 1, "lot": str(step)})))
    with Provider(lambda received: Say("Yes.")) as provider:
        llm = copied(focused(llm_at(provider.url), Focus("offline", budget=BUDGET)))
        assert type(llm).__name__ == "OpenAILike"
        assert isinstance(llm, OpenAILike)
        llm.chat(history)
        assert llm.focusctx.conversations
        assert "focusctx" not in llm.to_json()


def written(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


class Report(BaseModel):
    """The audit's result."""

    pages: int


def test_structured_output_is_asked_for_with_a_view() -> None:
    """The agent asks for it with its whole history in one message of the user."""

    def model(received: Received) -> Say:
        names = [tool["function"]["name"] for tool in received.body["tools"]]
        return Say("", (Call("Report", {"pages": 30}),)) if names == ["Report"] else task.model(received)

    async def run(llm: Any) -> Any:
        agent = FunctionAgent(llm=llm, tools=TOOLS, output_cls=Report)
        return await agent.run(task.TASK, memory=Memory.from_defaults(token_limit=100_000), max_iterations=100)

    sizes = []
    for focus in (None, compressing()):
        with Provider(model) as provider:
            llm = llm_at(provider.url)
            result = asyncio.run(run(llm if focus is None else focused(llm, focus)))
            assert result.structured_response == {"pages": 30}
            sizes.append(len(provider.received[-1].raw))
            text = written(provider.received[-1].messages[-1])
            assert f"<message>{task.TASK}</message>" in text
            assert "format the output according to the provided schema" in text
            conversation = text[text.index("<current_conversation>") : text.index("</current_conversation>")]
            messages = re.findall(
                r"\t<(user|assistant|tool)>\n\t\t<message>(.*?)</message>\n\t</\1>", conversation, re.S
            )
            assert conversation.count("<message>") == len(messages) > 0
            if focus is not None:
                outside = re.sub(r"\t<(user|assistant|tool)>\n.*?\n\t</\1>\n", "", conversation, flags=re.DOTALL)
                assert outside.strip() == "<current_conversation>"
                assert any(role == "tool" and "[…" in words for role, words in messages)
    assert sizes[1] < 0.6 * sizes[0]
