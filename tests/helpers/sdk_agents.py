"""The smallest agents that the official SDKs make: they do the long task, in each format, streamed and not, sync and
async, and say what they did.

The loop is written once, as a generator that asks for the next turn and is given it; the SDK calls are what differs.
"""

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

from helpers import task

FORMATS = ("chat_completions", "responses", "anthropic")
SYSTEM = "You are a careful auditor."
REMINDER = "Locked pages are noted, not waited for."
"""What coding agents slip in between steps as a system message, where the API takes one."""


@dataclass(frozen=True, slots=True)
class Run:
    """What an agent did: every tool call in order, the whole history at the end, and its last words."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    history: list[Any] = field(default_factory=list)
    final: list[str] = field(default_factory=list)


Loop = Generator[list[Any], Any, None]
"""Yields the history to send, is sent the model's turn."""


def _outcome(name: str, arguments: dict[str, Any], run: Run) -> tuple[str, bool]:
    run.calls.append((name, arguments))
    try:
        return task.run_tool(name, arguments), False
    except task.ToolFailure as failure:
        return f"Error: {failure}", True


def _chat(run: Run) -> Loop:
    run.history.extend([{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.TASK}])
    while True:
        message = (yield run.history).choices[0].message
        made_by_helper = {"tool_calls": {"__all__": {"index": True, "function": {"parsed_arguments"}}}}
        spoken = message.model_dump(exclude_none=True, exclude=made_by_helper)
        run.history.append({key: spoken[key] for key in ("role", "content", "tool_calls") if key in spoken})
        if not message.tool_calls:
            return run.final.append(message.content)
        for call in message.tool_calls:
            text, _ = _outcome(call.function.name, json.loads(call.function.arguments), run)
            run.history.append({"role": "tool", "tool_call_id": call.id, "content": text})


def _responses(run: Run) -> Loop:
    run.history.append({"role": "user", "content": task.TASK})
    while True:
        response = yield run.history
        run.history.extend(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return run.final.append(response.output_text)
        for call in calls:
            text, _ = _outcome(call.name, json.loads(call.arguments), run)
            run.history.append({"type": "function_call_output", "call_id": call.call_id, "output": text})


def _anthropic(run: Run) -> Loop:
    run.history.append({"role": "user", "content": task.TASK})
    while True:
        message = yield run.history
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        run.history.append({"role": "assistant", "content": content})
        if message.stop_reason != "tool_use":
            return run.final.append(content[-1]["text"])
        results = []
        for call in (block for block in message.content if block.type == "tool_use"):
            text, failed = _outcome(call.name, call.input, run)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": failed})
        run.history.append({"role": "user", "content": results})
        if len(run.calls) % 6 == 0:
            run.history.append({"role": "system", "content": REMINDER})


_LOOPS = {"chat_completions": _chat, "responses": _responses, "anthropic": _anthropic}


def _client(format: str, url: str, asynchronous: bool, headers: dict[str, str]) -> Any:
    if format == "anthropic":
        make: Any = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
        return make(base_url=url, api_key="key-of-a-test", max_retries=0, default_headers=headers)
    make = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return make(base_url=f"{url}/v1", api_key="key-of-a-test", max_retries=0, default_headers=headers)


def _request(client: Any, format: str, history: list[Any]) -> tuple[Any, dict[str, Any]]:
    """The SDK's resource with `create` and `stream`, and what to ask of it."""
    if format == "chat_completions":
        return client.chat.completions, {"messages": history, "tools": task.chat_tools()}
    if format == "responses":
        more = {"instructions": SYSTEM, "store": False, "include": ["reasoning.encrypted_content"]}
        return client.responses, {"input": history, "tools": task.responses_tools(), **more}
    tools = task.anthropic_tools()
    return client.messages, {"messages": history, "tools": tools, "system": SYSTEM, "max_tokens": 1024}


_WHOLE = {
    "chat_completions": "get_final_completion",
    "responses": "get_final_response",
    "anthropic": "get_final_message",
}


def run_sync(format: str, url: str, *, stream: bool, headers: dict[str, str] | None = None) -> Run:
    run = Run()
    loop = _LOOPS[format](run)
    with _client(format, url, False, headers or {}) as client:
        try:
            history = next(loop)
            while True:
                resource, asked = _request(client, format, history)
                if stream:
                    with resource.stream(model="scripted", **asked) as events:
                        for _ in events:
                            pass
                        turn = getattr(events, _WHOLE[format])()
                else:
                    turn = resource.create(model="scripted", **asked)
                history = loop.send(turn)
        except StopIteration:
            return run


async def run_async(format: str, url: str, *, stream: bool, headers: dict[str, str] | None = None) -> Run:
    run = Run()
    loop = _LOOPS[format](run)
    async with _client(format, url, True, headers or {}) as client:
        history = next(loop)
        while True:
            resource, asked = _request(client, format, history)
            if stream:
                async with resource.stream(model="scripted", **asked) as events:
                    async for _ in events:
                        pass
                    turn = await getattr(events, _WHOLE[format])()
            else:
                turn = await resource.create(model="scripted", **asked)
            try:
                history = loop.send(turn)
            except StopIteration:
                return run
