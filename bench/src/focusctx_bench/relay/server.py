"""The relay over HTTP: Chat Completions for programs at `/ARM/v1`, and a desk for readers at `/relay`."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from focusctx.errors import BenchError

from ..sizes import size
from .desk import PATIENCE, Desk, Rejected, text_of

HOST = "127.0.0.1"
WAIT = 540.0
"""Seconds that a reader waits for a request before they are told that there is none."""
OWN_FIRST = 8.0
"""Seconds that a reader who has just answered waits for the same conversation to go on."""


@asynccontextmanager
async def serving(log: Path, port: int = 0, patience: float = PATIENCE) -> AsyncIterator[str]:
    """Serve on the loopback interface while the block runs; yields the URL. Raises BenchError if that cannot be."""
    try:
        desk = Desk(log, patience)
    except OSError as error:
        raise BenchError(f"the log cannot be written: {error}") from error
    # A handler whose client has gone must not hand a request to nobody.
    runner = web.AppRunner(_app(desk), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as error:
            raise BenchError(f"port {port} cannot be used: {error}; choose another with --port") from error
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        desk.close()


def call_relay(url: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a reader's request to the relay. Raises BenchError if it does not answer."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/relay/{path}", data, {"content-type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=WAIT + 60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError) as error:
        raise BenchError(f"no relay answers at {url}: {error}; start one with `focusctx bench relay serve`") from error


def _app(desk: Desk) -> web.Application:
    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("stream"):
            return _refusal("the relay does not stream: leave out `stream`")
        if not body.get("messages"):
            return _refusal("the request has no messages")
        arm = request.match_info["arm"]
        many = await asyncio.gather(*(desk.ask(arm, body) for _ in range(body.get("n") or 1)))
        return web.json_response(_completion(body, many))

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "reader", "object": "model"}]})

    async def take(request: web.Request) -> web.Response:
        asked = await request.json()
        own_first = OWN_FIRST if asked.get("follows") else 0.0
        found = await desk.take(
            asked["reader"], asked["kind"], asked.get("arm", "*"), wait=asked.get("wait", WAIT), own_first=own_first
        )
        return web.json_response({"id": found.id, "text": text_of(found)} if found else {})

    async def reply(request: web.Request) -> web.Response:
        given = await request.json()
        try:
            desk.reply(given["reader"], given["id"], given["text"])
        except Rejected as problem:
            return web.json_response({"problem": str(problem)})
        return web.json_response({})

    async def status(_request: web.Request) -> web.Response:
        return web.json_response(desk.status())

    app = web.Application(client_max_size=2**27)
    app.router.add_post("/relay/take", take)
    app.router.add_post("/relay/reply", reply)
    app.router.add_post("/relay/status", status)
    app.router.add_post("/{arm}/v1/chat/completions", complete)
    app.router.add_get("/{arm}/v1/models", models)
    return app


def _completion(body: Mapping[str, Any], answers: list[Mapping[str, Any]]) -> dict[str, Any]:
    read, written = size(body["messages"], with_system=True), size(answers)
    choices = [
        {"index": number, "message": message, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
        for number, message in enumerate(answers)
    ]
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    about = {"id": "relay", "object": "chat.completion", "created": int(time.time()), "model": body.get("model", "")}
    return {**about, "choices": choices, "usage": usage}


def _refusal(why: str) -> web.Response:
    return web.json_response({"error": {"message": why, "type": "invalid_request_error"}}, status=400)
