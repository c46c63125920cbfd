"""τ²-bench with the answers in hand: an agent and a customer who do what a task's gold actions say, and a judge.

The agent makes its own gold actions and asks for the customer's, one per turn; then it says what is to be said and
goodbye. The judge looks for each expected outcome, word for word, in the conversation. All three can be had as
functions or from a server on loopback.
"""

import ast
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from focusctx.types import Message
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Model

PLEASE = "Please do step "
GOODBYE = "Goodbye."
LOOK_UPS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "telecom": [
        {"name": "get_customer_by_phone", "arguments": {"phone_number": "555-123-2002"}},
        *({"name": "get_details_by_id", "arguments": {"id": name}} for name in ("L1001", "L1002", "D1002", "P1002")),
    ],
}
"""Calls that change nothing, for a domain whose gold actions are short: without them there is nothing to compress."""


def agent(task: Mapping[str, Any], look_ups: Sequence[Mapping[str, Any]] = ()) -> FunctionModel:
    """Return an agent that makes `look_ups` and then the gold actions."""
    criteria = task["evaluation_criteria"]
    gold: Sequence[Mapping[str, Any]] = criteria["actions"] or []
    to_say = [*(criteria.get("communicate_info") or []), *(criteria.get("nl_assertions") or [])]

    turns = itertools.count()  # not from the messages: a method may have dropped some

    def decide(_: Sequence[Message]) -> Say:
        turn = next(turns)
        if turn < len(look_ups):
            return Say(calls=[(look_ups[turn]["name"], look_ups[turn]["arguments"])])
        number = turn - len(look_ups)
        if number >= len(gold):
            return Say(" ".join([*to_say, GOODBYE]))
        action = gold[number]
        if action.get("requestor") == "user":
            return Say(f"{PLEASE}{number}")
        return Say(calls=[(action["name"], action["arguments"])])

    return FunctionModel(decide, "gold agent")


def customer(task: Mapping[str, Any]) -> FunctionModel:
    def decide(messages: Sequence[Message]) -> Say:
        last = messages[-1]
        text = last["content"] or ""
        if last["role"] == "tool":
            return Say("Done.")
        if text.startswith(PLEASE):
            action = task["evaluation_criteria"]["actions"][int(text.removeprefix(PLEASE))]
            return Say(calls=[(action["name"], action["arguments"])])
        return Say("###STOP###" if text.endswith(GOODBYE) else "Hello, I need help.")

    return FunctionModel(decide, "gold customer")


def models(task: Mapping[str, Any]) -> dict[str, Model]:
    return {"user": customer(task), "judge": FunctionModel(judge, "judge")}


def judge(messages: Sequence[Message]) -> Say:
    conversation, _, expected = messages[-1]["content"].rpartition("expectedOutcomes:")
    results = [
        {"expectedOutcome": outcome, "reasoning": "said so", "metExpectation": outcome in conversation}
        for outcome in ast.literal_eval(expected.strip())
    ]
    return Say(f"```json\n{json.dumps({'results': results})}\n```")


@asynccontextmanager
async def serving(task: Mapping[str, Any], look_ups: Sequence[Mapping[str, Any]] = ()) -> AsyncIterator[str]:
    """Serve the models `agent`, `user` and `judge` of one run of the task; yields the URL."""
    served = {"agent": agent(task, look_ups), **models(task)}

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        turn = await served[body["model"]].answer(body["messages"], body.get("tools", ()))
        usage = {"prompt_tokens": turn.usage.input_tokens, "completion_tokens": turn.usage.output_tokens}
        return web.json_response({"choices": [{"index": 0, "message": turn.message}], "usage": usage})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
