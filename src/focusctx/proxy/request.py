"""An agent's request: its body read, unpacked and parsed, rebuilt from the agent's own bytes, and what it continues.

A body is parsed only as far as needed. An agent's next request usually begins with the bytes of its last one, up to
the end of the last message. A parser would be in the same state there, so only the rest is parsed: new messages, the
end of the list, and the fields after it. Messages that are kept are sent in the agent's own bytes.

A body that exceeds the limits on messages and values is forwarded unread, like a stream. A few kilobytes can unpack
to millions of messages, and each takes a hundred times its bytes once it is parsed. So values are counted first, by
searches that run at the speed of memory, before any object is built. Compressed bodies are unpacked up to a limit; one
that ends too early, or goes on after its end, counts as unreadable.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from operator import is_
from typing import Any, TypeAlias

import aiohttp
import brotli
import msgspec
from aiohttp import web

from ..errors import MessageError
from ..session.store import Spelled, canonical
from ..types import Message
from ..wire import Kind, wire_named
from ..wire.part import is_by_user, unmarked
from .access import Refused

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SILENCE = 120.0
"""Seconds within which the next piece of a body must arrive."""
GRACE, RATE = 60.0, 1024
"""A body that is held in memory must arrive at RATE bytes per second on average, after GRACE seconds."""
_RATIO = 100
"""Largest factor by which a body may grow when it is unpacked; text rarely reaches a tenth of it."""

MESSAGES = 10_000
"""Most messages in one request."""
VALUES = 200_000
"""Most JSON values in one request: twenty for each message."""
LARGE = 1024 * 1024
"""Bytes that take milliseconds to parse: larger bodies are parsed on a thread."""
_PER_MESSAGE = 600
"""Bytes of memory that a message takes besides its text."""
_TAIL = 32
"""Bytes at the end of an earlier request that are compared first: conversations of one agent begin alike."""
_LONG = 64 * 1024
"""Bytes from which the hash of a first message is not cached: the cache would hold gigabytes."""
_BYTES_PER_TOKEN = 4
"""Usual bytes of JSON for a token."""
_SPACE = b" \t\r\n"
_MARK = b"cache_control"

Fields: TypeAlias = dict[str, bytes]
"""The values of a JSON object by name, each as the JSON bytes that were sent."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()
_colon = re.compile(rb"\s*:\s*")


# ------------------------------------------------------------------------------------------------ the bytes of its body


class TooSlow(Refused):
    """The client sends its request too slowly."""

    def __init__(self) -> None:
        super().__init__(408, "the client sends its request too slowly")

    def response(self) -> web.Response:
        response = super().response()
        response.force_close()
        return response


async def read_up_to(content: aiohttp.StreamReader, limit: int) -> tuple[bytes, bool]:
    """Read a body up to slightly more than `limit`. Returns the bytes, and True if they are the whole body."""
    clock = asyncio.get_running_loop().time
    began, pieces, size = clock(), list[bytes](), 0
    while size <= limit:
        piece = await _next(content, min(clock() + SILENCE, began + GRACE + size / RATE))
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False


async def read_pieces(content: aiohttp.StreamReader, begun: bytes = b"") -> AsyncIterator[bytes]:
    """Yield a body as it arrives, after the part that was read before."""
    clock = asyncio.get_running_loop().time
    piece = begun or await _next(content, clock() + SILENCE)
    while piece:
        yield piece
        piece = await _next(content, clock() + SILENCE)


async def _next(content: aiohttp.StreamReader, until: float) -> bytes:
    """Return the next bytes of a body; empty at its end. Raises `TooSlow` if none arrive by `until`."""
    try:
        async with asyncio.timeout_at(until):
            return await content.readany()
    except TimeoutError:
        raise TooSlow from None


def unpacked_limit(packed: int, limit: int) -> int:
    """Return how many bytes a compressed body of `packed` bytes may unpack to."""
    return min(limit, max(_RATIO * packed, LARGE))


def unpack(body: bytes, encoding: str, limit: int) -> bytes | None:
    """Return the unpacked body; None if it cannot be unpacked or is longer than `limit`."""
    for name in reversed(encoding.lower().replace(" ", "").split(",")):
        if name in ("", "identity"):
            continue
        unpacker = _UNPACKERS.get(name)
        if unpacker is None:
            return None
        try:
            body = unpacker(body, limit + 1)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError, ValueError):
            return None
        if len(body) > limit:
            return None
    return body


def _zlib(window: int) -> Callable[[bytes, int], bytes]:
    def unpacked(body: bytes, most: int) -> bytes:
        unpacker = zlib.decompressobj(window)
        result = unpacker.decompress(body, most)
        if len(result) < most and (not unpacker.eof or unpacker.unused_data):
            raise EOFError
        return result

    return unpacked


def _deflate(body: bytes, most: int) -> bytes:
    """Unpack both variants of `deflate`: with zlib's header, and without."""
    try:
        return _zlib(zlib.MAX_WBITS)(body, most)
    except zlib.error:
        return _zlib(-zlib.MAX_WBITS)(body, most)


def _brotli(body: bytes, most: int) -> bytes:
    unpacker = brotli.Decompressor()
    result: bytes = unpacker.process(body, output_buffer_limit=most)
    while len(result) < most and not unpacker.is_finished():
        more = unpacker.process(b"", output_buffer_limit=most - len(result))
        if not more:
            raise EOFError
        result += more
    return result


def _zstd(body: bytes, most: int) -> bytes:
    unpacker = zstd.ZstdDecompressor()
    result: bytes = unpacker.decompress(body, most)
    if len(result) < most and (not unpacker.eof or unpacker.unused_data):
        raise EOFError
    return result


_UNPACKERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _zlib(zlib.MAX_WBITS | 16),
    "x-gzip": _zlib(zlib.MAX_WBITS | 16),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}


# ------------------------------------------------------------------------------------------------------- JSON values


def read_fields(body: bytes) -> Fields | None:
    """Return the fields of a JSON object; None for anything else."""
    try:
        return {name: bytes(value) for name, value in _object.decode(body).items()}
    except (msgspec.MsgspecError, RecursionError):
        # Python's own parser accepts half a surrogate pair, which JavaScript writes when it cuts a text.
        content = _lenient(body)
        return {name: encode(value) for name, value in content.items()} if isinstance(content, dict) else None


def read_list(value: bytes) -> list[bytes] | None:
    """Return the elements of a JSON array, each as the bytes that were sent; None for anything else."""
    try:
        return [bytes(element) for element in _array.decode(value)]
    except (msgspec.MsgspecError, RecursionError):
        content = _lenient(value)
        return list(map(encode, content)) if isinstance(content, list) else None


def write_fields(fields: Fields) -> bytes:
    return b"{" + b",".join(encode(name) + b":" + value for name, value in fields.items()) + b"}"


def write_list(elements: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(elements) + b"]"


def decode(value: bytes | None) -> Any:
    """Decode a JSON value; None if there is none. Raises `MessageError` if it cannot be decoded."""
    if value is None:
        return None
    try:
        return _anything.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # Python's own parser accepts more
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or brackets nested too deep
        raise MessageError("its JSON cannot be read") from error


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def has_too_many_values(text: bytes) -> bool:
    """True if JSON text holds more than `VALUES` values. Commas and quotes inside its strings do not count."""
    if len(text) < 2 * VALUES or text.count(b",") < VALUES:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 2 * VALUES:
        return True
    return b"".join(text.split(b'"')[::2]).count(b",") >= VALUES  # every other piece is outside strings


def memory_of(messages: Sequence[bytes]) -> int:
    """Estimate the bytes of memory that the messages take once they are decoded."""
    return sum(map(len, messages)) + _PER_MESSAGE * len(messages)


def _lenient(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# ------------------------------------------------------------------------------------------------- the whole request


@dataclass(frozen=True, slots=True)
class Request:
    """A body that was read: a JSON object, mostly with a history in it."""

    field: str
    """Name of the field that holds the history."""
    fields: Fields
    """All fields in their order; the value of the history is left empty if `messages` has it."""
    messages: list[bytes] | None
    """Messages of the history, each as the bytes that were sent; None if the field is missing or not a list."""
    start: bytes = b""
    """The body up to the end of the last message; empty if that place is not known."""
    opened: int = 0
    """Length of the part of `start` before the first message."""
    end: bytes = b""
    """The body from the end of the list on."""

    @property
    def size(self) -> int:
        """Estimated bytes of memory that keeping this request takes."""
        return len(self.start) + memory_of(self.messages or ())

    def is_start_of(self, body: bytes) -> bool:
        """True if the body has the same bytes as this one, up to the end of the last message."""
        size = len(self.start)
        return size > 0 and body[size - _TAIL : size] == self.start[-_TAIL:] and body.startswith(self.start)

    def with_messages(self, messages: Sequence[bytes]) -> bytes:
        """Return the body with other messages in place of its own."""
        if self.start and messages:  # copied once
            pieces = list(messages)
            pieces[0] = self.start[: self.opened] + pieces[0]
            pieces[-1] += self.end
            return b",".join(pieces)
        return write_fields({**self.fields, self.field: write_list(messages)})

    def with_fields(self, other: Fields) -> bytes:
        """Return the body with other values for these fields."""
        own = {} if self.messages is None else {self.field: write_list(self.messages)}
        return write_fields({**self.fields, **own, **other})


def read_request(body: bytes, field: str, earlier: Request | None = None) -> Request | None:
    """Read a request whose history is in `field`; None if it is not a JSON object, or exceeds the limits.

    If it begins with an `earlier` one, only the rest is parsed, unless it ends in an unusual way.
    """
    if earlier is not None and has_too_many_values(body[len(earlier.start) :]):
        return None
    found = (earlier and (_longer(earlier, body) or _ended_otherwise(earlier, body))) or _whole(body, field)
    return None if found is None or len(found.messages or ()) > MESSAGES else found


def _longer(earlier: Request, body: bytes) -> Request | None:
    """Read a body to which only messages were added, as is usual."""
    ends = len(body) - len(earlier.end)
    if ends < len(earlier.start) or not body.endswith(earlier.end):
        return None
    between = body[len(earlier.start) : ends].strip(_SPACE)
    if not between:
        return earlier
    new = _elements(between[1:]) if between.startswith(b",") else None
    if not new:
        return None
    return replace(earlier, messages=[*(earlier.messages or ()), *new], start=body[:ends].rstrip(_SPACE))


def _ended_otherwise(earlier: Request, body: bytes) -> Request | None:
    """Read a body whose fields after the history may have changed, too."""
    rest = body[len(earlier.start) :].lstrip(_SPACE)
    if rest[:1] == b",":
        rest = rest[1:]
    elif rest[:1] != b"]":
        return None
    field = earlier.field
    name = encode(field)
    if name in rest:  # perhaps the same name a second time: to be read as all parsers read it
        return None
    try:
        after = _object.decode(b"{" + name + b":[" + rest)
        new = [bytes(message) for message in _array.decode(after[field])]
    except (msgspec.MsgspecError, RecursionError):
        return None
    names = list(earlier.fields)
    fields = {name: earlier.fields[name] for name in names[: names.index(field)]}
    fields |= {name: bytes(value) for name, value in after.items()}
    end = rest[len(fields[field]) - 2 :]
    fields[field] = b""
    start = body[: len(body) - len(end)].rstrip(_SPACE) if new else earlier.start
    return Request(field, fields, [*(earlier.messages or ()), *new], start, earlier.opened, end)


def _whole(body: bytes, field: str) -> Request | None:
    fields = None if has_too_many_values(body) else read_fields(body)
    if fields is None:
        return None
    value = fields.get(field)
    messages = None if value is None else read_list(value)
    if value is None or messages is None:
        return Request(field, fields, None)
    fields[field] = b""
    place = _place(body, field, value) if messages else None
    if place is None:
        return Request(field, fields, messages)
    ends = place + len(value) - 1
    opened = ends - len(value[1:-1].lstrip(_SPACE))
    return Request(field, fields, messages, body[:ends].rstrip(_SPACE), opened, body[ends:])


def _place(body: bytes, field: str, value: bytes) -> int | None:
    """Return where the history begins; None if its name occurs twice, or with escapes."""
    name = encode(field)
    colon = _colon.match(body, body.find(name) + len(name)) if body.count(name) == 1 else None
    return colon.end() if colon and body.startswith(value, colon.end()) else None


def _elements(text: bytes) -> list[bytes] | None:
    try:
        return [bytes(element) for element in _array.decode(b"[" + text + b"]")]
    except (msgspec.MsgspecError, RecursionError):
        return None


# ----------------------------------------------------------------------------------------------------- its messages


@dataclass(frozen=True, slots=True)
class Decoded:
    """The messages of a request, decoded, with their bytes."""

    messages: list[Message]
    raw: list[bytes]
    new: int = 0
    """Bytes of memory for the messages that the request before did not have."""

    def raw_view(self, view: Sequence[Any]) -> list[bytes] | None:
        """Return the bytes of each message in `view`; None if the view is all messages, unchanged."""
        if len(view) == len(self.messages) and all(map(is_, view, self.messages)):
            return None
        return [message.json for message in view]


def decode_messages(raw: list[bytes], earlier: Decoded) -> Decoded:
    """Decode messages. Those at the beginning that `earlier` has, too, are the same objects as there."""
    common = _common(earlier.raw, raw)
    new = raw[common:]
    return Decoded(earlier.messages[:common] + list(map(_message, new)), raw, memory_of(new))


def _message(raw: bytes) -> Any:
    message = decode(raw)
    return Spelled(message, raw) if isinstance(message, dict) else message


def _common(before: list[bytes], after: list[bytes]) -> int:
    """Return how many elements the two share at the beginning."""
    if after[: len(before)] == before:  # the usual case, and fast if they are the same objects
        return len(before)
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return place
    return min(len(before), len(after))


def root_of(messages: Sequence[bytes]) -> str:
    """Hash the beginning of a conversation: everything up to the user's first words, cache marks aside."""
    beginning = []
    for raw in messages:
        found, is_user = (_cached_beginning if len(raw) < _LONG else _beginning)(raw)
        beginning.append(found)
        if is_user:
            break
    return blake2b(b"".join(beginning), digest_size=16).hexdigest()


def _beginning(raw: bytes) -> tuple[bytes, bool]:
    message = decode(raw)
    is_message = isinstance(message, dict)
    content = canonical(message) if is_message else raw
    return blake2b(content, digest_size=16).digest(), is_message and is_by_user(message)


_cached_beginning = lru_cache(maxsize=256)(_beginning)


def continues(messages: Sequence[bytes], known: Sequence[bytes]) -> bool:
    """True if a request begins with all messages of an earlier one, `known`."""
    if len(messages) < len(known) or (known and messages[len(known) - 1] != known[-1]):
        return False  # most that differ do so at the end
    return messages[: len(known)] == known


def resumes(messages: Sequence[bytes], known: Sequence[bytes], format: str) -> bool:
    """True if a request has all steps of an earlier one: cache marks may have moved, later words may be gone."""
    pairs = enumerate(zip(known, messages, strict=False))
    same = next((place for place, (old, new) in pairs if not _is_same(old, new)), min(len(known), len(messages)))
    if same == len(known):
        return True
    only_words = all(_kinds(known, place, format) == {Kind.WORDS} for place in range(same, len(known)))
    return only_words and _ends_a_step(known, same, format)


def _is_same(old: bytes, new: bytes) -> bool:
    """True for equal messages, cache marks aside."""
    if old == new:
        return True
    if _MARK not in old and _MARK not in new:
        return False
    before, after = decode(old), decode(new)
    return isinstance(before, dict) and isinstance(after, dict) and unmarked(before) == unmarked(after)


def _ends_a_step(messages: Sequence[bytes], end: int, format: str) -> bool:
    """True if the last step before `end` has its result: words right after the model's turn may be one."""
    for place in range(end - 1, -1, -1):
        kinds = _kinds(messages, place, format)
        if Kind.RESULT in kinds:
            return True
        if Kind.TURN in kinds:
            return place < end - 1
    return False


def _kinds(messages: Sequence[bytes], place: int, format: str) -> set[Kind]:
    message = decode(messages[place])
    return {part.kind for part in wire_named(format).read(message, place)} if isinstance(message, dict) else set()


_WITHOUT_MEDIA = {
    "chat_completions": ("text", "refusal", "function", "custom"),
    "anthropic": ("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "ephemeral"),
    "responses": (
        *("message", "input_text", "output_text", "reasoning", "summary_text", "reasoning_text"),
        *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    ),
    "ai_sdk": (
        *("text", "reasoning", "tool-call", "tool-result", "tool-approval-request", "tool-approval-response"),
        *("json", "content", "error-text", "error-json", "execution-denied", "ephemeral"),
    ),
}
_MEDIA = {
    name: re.compile(rb'"audio"|"type"\s*:\s*"(?!(?:%b)")' % "|".join(types).encode())
    for name, types in _WITHOUT_MEDIA.items()
} | {"gemini": re.compile(rb'"(?:inline_?data|file_?data)"', re.IGNORECASE), "ollama": re.compile(rb'"images"')}
"""Finds content that may count for more tokens than it has bytes: see `MEDIA_TOKENS`."""


def most_tokens(messages: Sequence[bytes], format: str) -> int | None:
    """Return an upper bound of the messages' tokens: no token is shorter than a byte. None if there is no bound."""
    most = 0
    for raw in messages:
        if _MEDIA[format].search(raw):
            return None
        # A tool's arguments are counted with a blank after each of these.
        most += len(raw) + raw.count(b",") + raw.count(b":")
    return most


def usual_tokens(messages: Sequence[bytes]) -> int:
    """Estimate the messages' tokens from their bytes."""
    return sum(map(len, messages)) // _BYTES_PER_TOKEN
