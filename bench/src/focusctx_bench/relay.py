"""A model server whose answers are written by readers who work from a shell: live runs where no model can be reached.

Programs ask for Chat Completions at `/ARM/v1`, readers take requests and reply at `/relay`. See docs/live.md.

The desk decides which reader answers which request, so that nobody answers with more than the request holds. A
request without tools is a single question (`once`), which any reader may answer who takes questions of its arm. A
request with tools is a step of a conversation (`agent`): as long as it only adds to the last one, the same reader
goes on and is shown what is new. Once its beginning has changed, because the history was compressed, it goes to a
reader who has never seen the task. A request that its reader does not take or answer in time goes to another one,
too.

Everything is in the log. A desk that is opened on an old log knows who has seen which task, and gives logged
answers again when the same step of a conversation is asked again: a run that was killed catches up by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

from aiohttp import web

from focusctx.errors import BenchError

from .sizes import size

Kind: TypeAlias = Literal["agent", "once"]
Message: TypeAlias = Mapping[str, Any]
HOST = "127.0.0.1"
WAIT = 540.0
"""Seconds that a reader waits for a request before they are told that there is none."""
OWN_FIRST = 8.0
"""Seconds that a reader who has just answered waits for the same conversation to go on."""
_LOOK = 0.05
"""Seconds between two looks of a waiting reader at what is asked."""
PATIENCE = 300.0
"""Seconds after which a request goes to another reader."""
TASK = "x-focusctx-task"
"""Header with the task of a request. Without it a task is known by the user's first words, which a simulated customer
chooses anew in every run."""


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


def call_relay(port: int, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a reader's request to the relay. Raises BenchError if it does not answer."""
    url = f"http://{HOST}:{port}"
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
        task = request.headers.get(TASK)
        many = await asyncio.gather(*(desk.ask(arm, body, task) for _ in range(body.get("n") or 1)))
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


class Rejected(Exception):
    """An answer that cannot be accepted; its text tells the reader why."""


@dataclass(eq=False)
class Request:
    """One request of a program, until it is answered."""

    id: str
    kind: Kind
    arm: str
    body: Mapping[str, Any]
    task: str = ""
    digest: str = ""
    new: Sequence[Message] | None = None
    """For a reader who goes on: the messages since the last request. None: show everything."""
    new_tools: Sequence[Mapping[str, Any]] = ()
    """For a reader who goes on: the tools that earlier requests did not have."""
    reader: str | None = None
    """The reader who answers it; None while any reader may."""
    held: bool = False
    """True once its reader has it."""
    since: float = field(default_factory=time.monotonic)
    """When it came, or was given to its reader."""
    answer: asyncio.Future[Message] = field(default_factory=asyncio.Future)


@dataclass
class _Conversation:
    messages: list[Any]
    reader: str | None = None
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    """All tools that its requests had."""
    moves: int = 0
    """Number of times that its beginning has changed."""


class Desk:
    def __init__(self, log: Path, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._open: dict[str, Request] = {}
        """Requests that are not answered, oldest first."""
        self._conversations: dict[tuple[str, str], _Conversation] = {}
        self._seen: dict[str, set[str]] = defaultdict(set)
        """Reader to the tasks that they have seen."""
        self._answers: dict[str, tuple[str, Message]] = {}
        """Digest of an agent's request to its reader and answer."""
        self._count = 0
        self._read(log)
        self._log = log.open("a", encoding="utf-8")

    async def ask(self, arm: str, body: Mapping[str, Any], task: str | None = None) -> Message:
        """Wait for the answer to a request; `task` names what the agent works on, if that is known."""
        request = self._request(arm, body, task)
        if not isinstance(request, Request):
            return request
        try:
            return await asyncio.shield(request.answer)
        except asyncio.CancelledError:
            if request.kind == "once":  # an agent asks again; for a question nobody waits any more
                self._open.pop(request.id, None)
            raise

    async def take(
        self, reader: str, kind: Kind, arms: str = "*", *, wait: float, own_first: float = 0.0
    ) -> Request | None:
        """Give the reader a request of an arm whose name matches the pattern `arms`.

        For `own_first` seconds, only a request of a conversation that is theirs.
        """
        began = time.monotonic()
        while True:
            waited = time.monotonic() - began
            if request := self._next(reader, kind, arms, only_own=waited < own_first):
                return request
            if waited >= wait:
                return None
            await asyncio.sleep(_LOOK)

    def reply(self, reader: str, id: str, text: str) -> None:
        """Answer a request. Raises Rejected if the answer cannot be used."""
        request = self._open.get(id)
        if request is None or request.reader != reader:
            raise Rejected(f"{id} is not yours, or not any more: take another request")
        message = _message_of(request, text)
        self._note("reply", request, reader=reader, digest=request.digest, message=message)
        if request.kind == "agent":
            self._answers[request.digest] = reader, message
        del self._open[id]
        if not request.answer.done():
            request.answer.set_result(message)

    def status(self) -> dict[str, Any]:
        return {
            "asked": self._count,
            "open": [
                {"id": request.id, "kind": request.kind, "arm": request.arm, "reader": request.reader}
                for request in self._open.values()
            ],
            "moves": {f"{arm} {task}": talk.moves for (arm, task), talk in self._conversations.items()},
            "seen": {reader: len(tasks) for reader, tasks in self._seen.items()},
        }

    def close(self) -> None:
        self._log.close()

    def _request(self, arm: str, body: Mapping[str, Any], named: str | None) -> Request | Message:
        """Return the request to wait for, or the answer if it was answered before."""
        self._count += 1
        messages = [_plain(message) for message in body["messages"]]
        if not body.get("tools"):
            request = self._open[f"q{self._count}"] = Request(f"q{self._count}", "once", arm, body)
            self._note("ask", request, model=body.get("model"), messages=body["messages"])
            return request
        digest = _digest([arm, body.get("model"), messages, *([named] if named else [])])
        for waiting in self._open.values():
            if waiting.digest == digest:
                return waiting  # the program gave up waiting and asks again
        task = named or _digest(next((message for message in messages if message[0] == "user"), messages[0]))[:10]
        new = self._goes_on(arm, task, messages)
        if new is None and named:  # the task was begun again, or its history compressed: nobody waits for these
            stale = [one for one in self._open.values() if (one.arm, one.task) == (arm, task) and not one.held]
            for one in stale:
                one.answer.cancel()
                del self._open[one.id]
        talk = self._conversations[arm, task]
        new_tools = [tool for tool in body["tools"] if tool not in talk.tools]
        talk.tools += new_tools
        if digest in self._answers:
            talk.reader, answer = self._answers[digest]
            return answer
        request = Request(f"a{self._count}", "agent", arm, body, task, digest)
        if new is not None and talk.reader is not None:
            request.reader, request.new, request.new_tools = talk.reader, body["messages"][new:], new_tools
        self._open[request.id] = request
        self._note("ask", request, model=body.get("model"), moves=talk.moves, messages=len(messages))
        return request

    def _goes_on(self, arm: str, task: str, messages: list[Any]) -> int | None:
        """Return the place of the first new message, or None for a conversation that begins, or begins differently."""
        talk = self._conversations.get((arm, task))
        if talk is not None and messages[: len(talk.messages)] == talk.messages:
            known, talk.messages = len(talk.messages), messages
            return known
        self._conversations[arm, task] = _Conversation(messages, moves=talk.moves + 1 if talk else 0)
        return None

    def _next(self, reader: str, kind: Kind, arms: str, *, only_own: bool) -> Request | None:
        self._release_abandoned()
        waiting = [one for one in self._open.values() if one.kind == kind and not one.held]
        found = [one for one in waiting if fnmatchcase(one.arm, arms)]
        own = [one for one in found if one.reader == reader]
        free = [one for one in found if one.reader is None and one.task not in self._seen[reader]]
        request = next(iter(own if only_own else [*own, *free]), None)
        if request is None:
            return None
        request.reader, request.held, request.since = reader, True, time.monotonic()
        if request.kind == "agent":
            self._seen[reader].add(request.task)
            self._conversations[request.arm, request.task].reader = reader
            self._note("take", request, reader=reader)
        return request

    def _release_abandoned(self) -> None:
        """Free the requests whose readers have gone; another reader is shown the whole conversation."""
        for request in self._open.values():
            if request.reader is not None and time.monotonic() - request.since > self._patience:
                self._note("abandoned", request, reader=request.reader)
                request.reader, request.held, request.new = None, False, None
                if request.kind == "agent":
                    self._conversations[request.arm, request.task].reader = None

    def _note(self, event: str, request: Request, **more: Any) -> None:
        about = {"id": request.id, "kind": request.kind, "arm": request.arm, "task": request.task}
        entry = {"event": event, "at": round(time.time(), 1), **about, **more}
        self._log.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self._log.flush()

    def _read(self, log: Path) -> None:
        if not log.exists():
            return
        text = log.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # the last line of a process that was killed is not whole
            text = text[: text.rfind("\n") + 1]
            log.write_text(text, encoding="utf-8")
        for entry in map(json.loads, text.splitlines()):
            if entry["event"] == "take":
                self._seen[entry["reader"]].add(entry["task"])
            elif entry["event"] == "reply" and entry["kind"] == "agent":
                self._answers[entry["digest"]] = entry["reader"], entry["message"]
            elif entry["event"] == "ask":
                self._count = max(self._count, int(entry["id"][1:]))


def text_of(request: Request) -> str:
    """Render a request for its reader."""
    messages = request.body["messages"]
    if request.kind == "once":
        return "\n".join(map(_shown, messages))
    name = _digest([request.arm, request.task])[:6]  # other conversations may begin with the same words
    if request.new is not None:
        own = bool(request.new) and request.new[0]["role"] == "assistant"  # the reader's own last answer
        opening = next(message for message in messages if message["role"] == "user")
        head = f"GOES ON: conversation {name}, which began with {_plain(opening)[1][:100]!r}"
        more = ["New tools:", *map(_tool_line, request.new_tools)] if request.new_tools else []
        return "\n".join([head, *more, *map(_shown, request.new[own:])])
    tools = map(_tool_line, request.body["tools"])
    return "\n".join([f"NEW CONVERSATION {name}. Tools:", *tools, *map(_shown, messages)])


def _tool_line(tool: Mapping[str, Any]) -> str:
    function = tool["function"]
    arguments = json.dumps(function.get("parameters", {}).get("properties", {}))
    return f"{function['name']}: {function.get('description', '')} {arguments}"


def _message_of(request: Request, text: str) -> dict[str, Any]:
    """Return a reader's answer as an assistant message: plain text to a question, a JSON object to an agent."""
    if not text.strip():
        raise Rejected("the answer is empty")
    if request.kind == "once":
        return {"role": "assistant", "content": text.strip()}
    try:
        answer = json.loads(text)
        calls = [(call["name"], call.get("arguments") or {}) for call in answer.get("tool_calls") or ()]
        content = answer.get("content")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        form = '{"content": "...", "tool_calls": [{"name": "...", "arguments": {...}}]}'
        raise Rejected(f"an answer is JSON of the form {form}; either part may be missing ({error!r})") from error
    known = [tool["function"]["name"] for tool in request.body["tools"]]
    if unknown := [name for name, _ in calls if name not in known]:
        raise Rejected(f"there is no tool {unknown[0]!r}; tools: {', '.join(known)}")
    if not isinstance(content, str | None) or not all(isinstance(arguments, dict) for _, arguments in calls):
        raise Rejected("arguments must be JSON objects, and content a text")
    if not calls and not content:
        raise Rejected("the answer has neither content nor tool_calls")
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{request.id}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    return message


def _plain(message: Message) -> list[Any]:
    """Return a message as a list without what clients and servers spell differently."""
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or ()]
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part.get("text", "") for part in content)
    return [message["role"], content, calls, message.get("tool_call_id")]


def _shown(message: Message) -> str:
    role, content, calls, _ = _plain(message)
    said = [content] if content else []
    return "\n".join([f"--- {role}", *said, *(f"call {name}({given})" for name, given in calls)])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()
