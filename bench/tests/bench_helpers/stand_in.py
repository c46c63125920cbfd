"""A stand-in for every model of a bench run, on loopback: agent, draft, summariser, customer, judge.

It knows what it is asked from the request alone: a system prompt that asks for a plan gets one, tools are used as far
as the office's and the questions' scripted agents know them, everything else gets a short answer. Enough to take any
benchmark from its first step to its score; how it scores says nothing.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from focusctx_bench.benchmarks import scripted_model

PAGE = "<!doctype html><title>Lamp shop</title><h1>Lamps</h1><ul><li>Dune</li><li>Reef</li></ul>" + "<p>Notes.</p>" * 90
CODE = "print('looking at the notes again, ' * 60)"
LIST = "ls -l /testbed/data /usr/share | head -n 40"
_SPAN = re.compile(r"^\[(s_\d+)\]", re.MULTILINE)


def serve() -> tuple[str, Callable[[], None]]:
    """Start the server on a thread; return its URL and what ends it."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    url: list[str] = []

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", _chat)
        app.router.add_get("/shop", _shop)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        return runner

    def work() -> None:
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait(10)

    def close() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    return url[0], close


async def _shop(_: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


async def _chat(request: web.Request) -> web.Response:
    body = await request.json()
    messages, tools = body["messages"], [tool["function"]["name"] for tool in body.get("tools", ())]
    said = await _acted(messages, tools) if tools else {"role": "assistant", "content": _written(messages)}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if said.get("tool_calls") else "stop"}
    usage = {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": 20 * body.get("n", 1)}
    return web.json_response({"choices": [choice] * body.get("n", 1), "usage": usage})


def _written(messages: Sequence[dict[str, Any]]) -> str:
    """Answer a request without tools: a plan, actions, a choice, a verdict, a customer's words, a memory."""
    asked = "\n".join(str(message.get("content")) for message in messages)
    system = str(messages[0].get("content"))
    if "Depends on:" in system:
        cited = ", ".join(_SPAN.findall(asked)[:2])
        return f"Step: go on | Depends on: [{cited}]\nRescued Spans: [] | Reason: none"
    if "The agent's actions:" in asked:
        return "look again\nask the user\nfinish"
    if "The number:" in asked:
        return "1"
    if "SUCCESS" in system:
        return "The lamps are named.\nSUCCESS"
    if "expectedOutcomes" in asked:
        return '{"results": []}'
    if "Memory" in asked or "memory" in system:
        return "Reasoning: nothing new. Completed: the first steps."
    return "###STOP###" if len(messages) > 4 else "Hello, I would like to know more about my order, please."


async def _acted(messages: list[dict[str, Any]], tools: Sequence[str]) -> dict[str, Any]:
    """Return the agent's next turn, by the tools it has."""
    turns = sum(message["role"] == "assistant" for message in messages)
    if tools == ["search"]:
        return dict((await scripted_model("qa8").answer(messages, ())).message)
    if "run_python" in tools:
        return _call(turns, "run_python", code=CODE if turns < 6 else "apis.supervisor.complete_task()")
    if "answer" in tools:
        return _call(turns, "scroll", direction="down") if turns < 6 else _call(turns, "answer", text="Dune, Reef")
    if "finish_task" in tools:
        if "shell_command" not in tools:
            return _call(turns, "switch_app", target_app="shell")
        return _call(turns, "shell_command", command=LIST) if turns < 6 else _call(turns, "finish_task", answer="none")
    if "transfer_to_human_agents" in tools:
        if turns < 5 and "list_all_product_types" in tools:
            return _call(turns, "list_all_product_types")
        return {"role": "assistant", "content": "Is there anything else that I can help you with?"}
    return dict((await scripted_model("office").answer(messages, ())).message)


def _call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }
