"""LiteLLM: three kinds of calls, streamed and not, translated from one to another, through the router and the proxy."""

import asyncio
import json
import os
from typing import Any

import pytest

import task
from integrations.conformance import Conformance

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it fetches prices otherwise
litellm = pytest.importorskip("litellm", reason="scripts/test-integrations litellm")

from focusctx.integrations.litellm import FocusCallback
from focusctx.integrations.plug import Source


class TestLiteLLM(Conformance):
    name = "litellm"
    modes = ("chat", "router stream", "chat on anthropic", "messages on responses")
    imports = ("litellm",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        litellm.callbacks = [] if focus is None else [FocusCallback(focus)]
        try:
            return asyncio.run(audit(mode, url))
        finally:
            litellm.callbacks = []


async def audit(mode: str, url: str) -> tuple[str, list[Any]]:
    history: list[Any] = [{"role": "user", "content": task.TASK}]
    where = {"model": "openai/scripted", "api_base": f"{url}/v1", "api_key": "none"}
    if "anthropic" in mode:
        where |= {"model": "anthropic/scripted", "api_base": url}
    router = litellm.Router([{"model_name": "auditor", "litellm_params": where}])
    while True:
        if "messages" in mode:
            answer = await messages_step(history, **where)
        elif "router" in mode:
            answer = await chat_step(router.acompletion, history, model="auditor", stream=True)
        else:
            answer = await chat_step(litellm.acompletion, history, **where)
        if answer is not None:
            return answer, history


async def chat_step(complete: Any, history: list[Any], **more: Any) -> str | None:
    """One call of the model and of the tools it asks for; the answer when it asks for none."""
    answer = await complete(messages=history, tools=task.chat_tools(), **more)
    if more.get("stream"):
        answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
    message = answer.choices[0].message
    calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls or ()]
    history.append({"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})})
    for call in calls:
        text = tool_text(call["function"]["name"], json.loads(call["function"]["arguments"]))
        history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return None if calls else message.content


async def messages_step(history: list[Any], **where: Any) -> str | None:
    tools = task.anthropic_tools()
    answer = await litellm.anthropic_messages(messages=history, tools=tools, max_tokens=1000, **where)
    history.append({"role": "assistant", "content": answer["content"]})
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    results = [(call["id"], tool_text(call["name"], call["input"])) for call in calls]
    if not calls:
        return answer["content"][-1]["text"]
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
    history.append({"role": "user", "content": blocks})
    return None


def tool_text(name: str, arguments: dict[str, Any]) -> str:
    try:
        return task.run_tool(name, arguments)
    except task.ToolFailure as failure:
        return f"Error: {failure}"
