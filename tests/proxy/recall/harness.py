"""Turns played to their end: scripted rounds go in, in pieces of any size, and the real SDKs read what comes out."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import httpx2
from anthropic import Anthropic
from openai import OpenAI

from focusctx.proxy.recall import rounds
from focusctx.proxy.recall.rounds import turn_for
from focusctx.proxy.recall.turn import Turn
from focusctx.session.recall import TOOL
from focusctx.types import Message
from spoken import Answer, Call, Json, Say, stream, whole

FORMATS = ("chat_completions", "responses", "anthropic")
RECALL = Call(TOOL, {"query": "s_7"})
OTHER = Call("look", {"path": "a.py"})
TASK = {"role": "user", "content": "Do it."}


def request(format: str, **fields: Any) -> Json:
    return {"model": "scripted", "stream_options": {"include_usage": True}, "tools": [{"name": TOOL}], **fields}


def answer_of(say: Say, number: int = 1, format: str = "chat_completions", *, chunk: int = 5) -> Answer:
    return Answer(say, number, request(format), 100 * number, 10 * number, chunk)


def stream_of(say: Say, format: str, number: int = 1, *, chunk: int = 5) -> bytes:
    return b"".join(stream(answer_of(say, number, format, chunk=chunk), format))


def whole_of(say: Say, format: str, number: int = 1) -> bytes:
    return json.dumps(whole(answer_of(say, number, format), format)).encode()


def cut(stream: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for size in cycle([*sizes] or [1]):
        if start >= len(stream):
            return
        yield stream[start : start + size]
        start += size


@dataclass
class Sent:
    """Bytes that a provider sends, as a `rounds.Readable`."""

    body: bytes
    sizes: Sequence[int] = (1 << 20,)
    ok: bool = True
    breaks_off: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in cut(self.body, self.sizes):
            yield chunk
        if self.breaks_off:
            raise ConnectionResetError("gone")


@dataclass
class Played:
    """A turn that was played, with everything that was asked on the way."""

    format: str
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)
    asked: list[tuple[list[Message], bool]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    turn: Turn[Any] = None  # type: ignore[assignment]
    answer: Any = None


class Play:
    """The far side of the loop: answers of a provider, one per round, and a memory."""

    def __init__(self, format: str, rounds: Sequence[Sent]) -> None:
        self.played = Played(format, turn=turn_for(format))
        self._rounds = iter(rounds)

    async def recall(self, query: str) -> str:
        self.played.queries.append(query)
        return f"recalled {query}"

    @asynccontextmanager
    async def ask_again(self, extra: list[Message], *, offer_tool: bool) -> AsyncIterator[Sent]:
        self.played.asked.append((extra, offer_tool))
        yield next(self._rounds)

    async def stream(self, **options: Any) -> Played:
        played = self.played
        played.pieces = [
            piece
            async for piece in rounds.stream(played.turn, next(self._rounds), self.ask_again, self.recall, **options)
        ]
        played.body = b"".join(played.pieces)
        return played

    async def whole(self, **options: Any) -> Played:
        played = self.played
        played.answer, played.body = await rounds.whole(
            played.turn, next(self._rounds), self.ask_again, self.recall, **options
        )
        return played


async def play(
    format: str, *says: Say, streamed: bool = True, sizes: Sequence[int] = (1 << 20,), **options: Any
) -> Played:
    make = stream_of if streamed else whole_of
    rounds = [Sent(make(say, format, number), sizes) for number, say in enumerate(says, 1)]
    player = Play(format, rounds)
    return await (player.stream(**options) if streamed else player.whole(**options))


# What an agent reads


@dataclass
class Seen:
    """An answer as an SDK puts it together."""

    id: str
    texts: list[str]
    thoughts: list[str]
    calls: list[tuple[str, dict[str, Any]]]
    finish: str | None
    input_tokens: int
    output_tokens: int
    raw: Any


def seen(played: Played, *, streamed: bool = True) -> Seen:
    return read_by_sdk(played.body, played.format, streamed=streamed)


def read_by_sdk(body: bytes, format: str, *, streamed: bool = True) -> Seen:
    kind = "text/event-stream" if streamed else "application/json"
    reply = httpx2.Response(200, headers={"content-type": kind}, content=body)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: reply))
    return {"chat_completions": _chat, "responses": _responses, "anthropic": _anthropic}[format](http, streamed)


def openai_client(http: httpx2.Client) -> OpenAI:
    return OpenAI(api_key="none", base_url="http://provider/v1", http_client=http, max_retries=0)


def anthropic_client(http: httpx2.Client) -> Anthropic:
    return Anthropic(api_key="none", base_url="http://provider", http_client=http, max_retries=0)


def _chat(http: httpx2.Client, streamed: bool) -> Seen:
    client = openai_client(http)
    asked: Any = {"model": "scripted", "messages": [TASK]}
    if streamed:
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
            for _ in events:
                pass
            completion: Any = events.get_final_completion()
    else:
        completion = client.chat.completions.create(**asked)
    (choice,) = completion.choices
    message = choice.message
    assert message.role == "assistant"
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    thought = getattr(message, "reasoning_content", None)
    usage = completion.usage
    return Seen(
        completion.id,
        [message.content] if message.content else [],
        [thought] if thought else [],
        calls,
        choice.finish_reason,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        completion,
    )


def _responses(http: httpx2.Client, streamed: bool) -> Seen:
    client = openai_client(http)
    if streamed:
        with client.responses.stream(model="scripted", input="Do it.") as events:
            numbers = [event.sequence_number for event in events]
            response: Any = events.get_final_response()
        assert numbers == list(range(len(numbers))), "events are numbered on without a gap"
    else:
        response = client.responses.create(model="scripted", input="Do it.")
    kinds = {
        kind: [item for item in response.output if item.type == kind]
        for kind in ("message", "function_call", "reasoning")
    }
    return Seen(
        response.id,
        ["".join(part.text for part in item.content) for item in kinds["message"]],
        ["".join(part.text for part in item.summary) for item in kinds["reasoning"]],
        [(item.name, json.loads(item.arguments)) for item in kinds["function_call"]],
        response.status,
        response.usage.input_tokens,
        response.usage.output_tokens,
        response,
    )


def _anthropic(http: httpx2.Client, streamed: bool) -> Seen:
    client = anthropic_client(http)
    asked: Any = {"model": "scripted", "messages": [TASK], "max_tokens": 9}
    if streamed:
        with client.messages.stream(**asked) as events:
            message: Any = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    kinds = {
        kind: [block for block in message.content if block.type == kind] for kind in ("text", "thinking", "tool_use")
    }
    usage = message.usage
    return Seen(
        message.id,
        [block.text for block in kinds["text"]],
        [block.thinking for block in kinds["thinking"]],
        [(block.name, block.input) for block in kinds["tool_use"]],
        message.stop_reason,
        usage.input_tokens + usage.cache_read_input_tokens,
        usage.output_tokens,
        message,
    )
