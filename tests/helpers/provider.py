"""A scripted LLM provider on a real loopback socket: the three model APIs, streamed and not, in the providers' words.

Responses are spoken over a WebSocket too. What the model says is a function of the request. Like the real ones, the
provider refuses a history that breaks their rules; nothing else is checked. What else is asked comes back as JSON.
"""

import asyncio
import bisect
import importlib
import itertools
import json
import re
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from focusctx.invariants import violations
from helpers.stored_items import StoredItems
from spoken import Answer, Call, Json, Say, stream, whole

_FORMATS = {
    "/chat/completions": "chat_completions",
    "/responses": "responses",
    "/messages": "anthropic",
    "/api/chat": "ollama",
}
_GEMINI = re.compile(r"/models/[^/:]+:(generateContent|streamGenerateContent)$")
_COUNT = "/messages/count_tokens"


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    raw: bytes
    """Decoded from its content encoding where the codec is installed."""
    body: Any
    """The parsed JSON, or None."""
    query: str = ""

    @property
    def format(self) -> str | None:
        if self.method != "POST" and "upgrade" not in self.headers:
            return None
        if _GEMINI.search(self.path):
            return "gemini"
        return next((name for end, name in _FORMATS.items() if self.path.endswith(end)), None)

    @property
    def messages(self) -> list[Any]:
        if not isinstance(self.body, dict):
            return []
        found = next((self.body[name] for name in ("messages", "input", "contents") if self.body.get(name)), [])
        return [{"role": "user", "content": found}] if isinstance(found, str) else list(found)

    @property
    def stream(self) -> bool:
        if self.path.endswith(":streamGenerateContent"):
            return True
        usual = self.format == "ollama"  # which streams unless it is told not to
        return isinstance(self.body, dict) and bool(self.body.get("stream", usual))


Model = Callable[[Received], Say]
"""What the scripted model answers."""


class Provider:
    """Serves from its own thread while the `with` block runs. An error in the model is raised at its end."""

    def __init__(self, model: Model, *, chunk: int = 16, websocket: bool = True) -> None:
        self.url = ""
        """Without `/v1`."""
        self.received: list[Received] = []
        """Every model request, token counts included."""
        self.rejected: list[str] = []
        """What was wrong with the histories that were refused."""
        self.refused: list[Received] = []
        self._model = model
        self._chunk = chunk
        self._websocket = websocket
        self._numbers = itertools.count(1)
        self._before = b""
        self._stored = StoredItems()
        self._errors: list[Exception] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="scripted provider", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def _serve(self) -> None:
        asyncio.run(self._until_ended())

    async def _until_ended(self) -> None:
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(
            app, auto_decompress=False, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._started.set()
        await self._ended.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        received = _read(request, await request.read())
        anthropic = "anthropic-version" in received.headers
        if received.format is None and not received.path.endswith(_COUNT):
            known = received.path.endswith("/models")
            return web.json_response(_models(anthropic) if known else _echo(received, request.path_qs))
        if "upgrade" in received.headers and not self._websocket:
            return web.json_response(_refusal("Use HTTP.", 0, "responses"), status=426)
        if "upgrade" in received.headers:
            return await self._talk(request, received)
        self.received.append(received)
        number = next(self._numbers)
        spoken = received.format or "anthropic"
        headers = _headers(number, spoken)
        if wrong := _wrong(received, spoken, self._stored):
            self.rejected.append(wrong)
            self.refused.append(received)
            return web.json_response(_refusal(wrong, number, spoken), status=400, headers=headers)
        if received.format is None:
            return web.json_response({"input_tokens": len(received.raw) // 4}, headers=headers)
        answer = self._say(received, number)
        if not received.stream:
            return web.json_response(whole(answer, spoken), headers=headers)
        kind = "application/x-ndjson" if spoken == "ollama" else "text/event-stream; charset=utf-8"
        response = web.StreamResponse(headers={**headers, "content-type": kind})
        await response.prepare(request)
        for event in stream(answer, spoken):
            await response.write(event)
        await response.write_eof()
        return response

    async def _talk(self, request: web.Request, opened: Received) -> web.WebSocketResponse:
        """Every frame is a request, every event of its answer a frame."""
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        async for frame in socket:
            received = replace(opened, raw=frame.data.encode(), body=json.loads(frame.data))
            self.received.append(received)
            number = next(self._numbers)
            if wrong := _wrong(received, "responses", self._stored):
                self.rejected.append(wrong)
                await socket.send_json({"type": "error", "status": 400, **_refusal(wrong, number, "responses")})
                continue
            for event in stream(self._say(received, number), "responses"):
                await socket.send_str(event.decode().partition("data: ")[2].strip())
        return socket

    def _say(self, received: Received, number: int) -> Answer:
        silent = received.body.get("generate") is False  # opens a conversation and wants no answer yet
        try:
            say = Say() if silent else self._model(received)
        except Exception as error:
            self._errors.append(error)
            raise
        cached = _shared(self._before, received.raw) // 4
        self._before = received.raw
        answer = Answer(say, number, received.body, len(received.raw) // 4, cached, self._chunk)
        if received.format == "responses":
            self._stored.remember(whole(answer, "responses")["output"])
        return answer


def _read(request: web.Request, raw: bytes) -> Received:
    headers = {name.lower(): value for name, value in request.headers.items()}
    for encoding in reversed(headers.get("content-encoding", "").split(",")):
        raw = _decoded(raw, encoding.strip().lower())
    body = None
    with suppress(ValueError):
        body = json.loads(raw)
    return Received(request.method, request.path, headers, raw, body, request.query_string)


def _decoded(raw: bytes, encoding: str) -> bytes:
    module = {"br": "brotli", "zstd": "backports.zstd"}.get(encoding)
    if encoding in ("gzip", "deflate"):
        return zlib.decompress(raw, wbits=zlib.MAX_WBITS | (32 if encoding == "gzip" else 0))
    with suppress(ImportError):
        return bytes(importlib.import_module(module).decompress(raw)) if module else raw
    return raw


_HELD = ("previous_response_id", "conversation", "thread")
"""With these, the calls that a request's outputs answer are on the provider's side."""


def _wrong(received: Received, format: str, stored: StoredItems) -> str:
    """What the provider would answer 400 with, or nothing."""
    if not isinstance(received.body, dict):
        return "We could not parse the JSON body of your request."
    if any(received.body.get(name) for name in _HELD):
        return ""
    items = stored.expanded(received.messages)
    calls = {item.get("call_id") for item in items if not str(item.get("type")).endswith("_output")}
    outputs = [item["call_id"] for item in items if str(item.get("type")).endswith("_output")]
    alone = [f"No tool call found for function call output with call_id {one}." for one in outputs if one not in calls]
    broken = [*violations(received.messages, format), *violations(items, format)]
    return "; ".join(dict.fromkeys([*alone, *stored.wrong(received.messages), *map(str, broken)]))


def _refusal(message: str, number: int, format: str) -> Json:
    if format == "ollama":
        return {"error": message}
    if format == "gemini":
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    if format == "anthropic":
        error = {"type": "invalid_request_error", "message": message}
        return {"type": "error", "error": error, "request_id": f"req_{number:06d}"}
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _headers(number: int, format: str) -> dict[str, str]:
    if format == "ollama":
        return {}
    if format == "gemini":
        return {"server-timing": f"gfet4t7; dur={number}", "x-frame-options": "SAMEORIGIN"}
    if format == "anthropic":
        limit = "anthropic-ratelimit-requests"
        return {
            "request-id": f"req_{number:06d}",
            "anthropic-organization-id": "org-scripted",
            f"{limit}-limit": "4000",
            f"{limit}-remaining": "3999",
            f"{limit}-reset": "2027-01-01T00:00:00Z",
        }
    return {
        "x-request-id": f"req_{number:06d}",
        "openai-organization": "org-scripted",
        "openai-processing-ms": "7",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-reset-requests": "6ms",
    }


def _models(anthropic: bool) -> Json:
    if anthropic:
        model = {"type": "model", "id": "scripted", "display_name": "Scripted", "lifecycle": "active"}
        models = [{**model, "created_at": "2026-01-01T00:00:00Z"}]
        return {"data": models, "has_more": False, "first_id": "scripted", "last_id": "scripted"}
    return {
        "object": "list",
        "data": [{"id": "scripted", "object": "model", "created": 1_790_000_000, "owned_by": "tests"}],
    }


def _echo(received: Received, path: str) -> Json:
    return {
        "method": received.method,
        "path": path,
        "headers": dict(received.headers),
        "body": received.raw.decode(errors="replace"),
    }


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes two requests have in common at their start: what a provider's cache could have read."""
    most = min(len(one), len(other))
    return bisect.bisect_left(range(most), True, key=lambda end: one[: end + 1] != other[: end + 1])


__all__ = ["Call", "Model", "Provider", "Received", "Say"]
