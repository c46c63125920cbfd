"""One contender on one cell: the conversations so far, then the requests that count, with clocks read around them.

The client sends requests over kept-alive connections, as cheap as asyncio allows, and checks every answer. It is
written on `asyncio.Protocol` because an HTTP library would cost more than the proxies that are measured.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from .contenders import Server
from .plan import Requests

LAST_CHUNK = b"0\r\n\r\n"


@dataclass
class Figures:
    """Measurements, one entry per round; `first_bytes` one per request."""

    cpu: list[float] = field(default_factory=list)
    """Seconds of the proxy's CPU time per request."""
    rates: list[float] = field(default_factory=list)
    """Requests per second."""
    first_bytes: list[float] = field(default_factory=list)
    shrunk: list[float] = field(default_factory=list)
    """Bytes that went up, as a share of those that came."""

    def add(self, other: Figures) -> None:
        self.cpu += other.cpu
        self.rates += other.rates
        self.first_bytes += other.first_bytes
        self.shrunk += other.shrunk

    @property
    def cpu_per_request(self) -> float:
        return median(self.cpu)

    @property
    def rate(self) -> float:
        return median(self.rates)

    def percentile(self, percent: int) -> float:
        ordered = sorted(self.first_bytes)
        return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


class Upstream:
    """The fake provider, asked directly."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def pace(self, seconds: float) -> None:
        self._get(f"/pace/{seconds}")

    def received(self) -> int:
        return int(self._get("/seen")["received"])

    def _get(self, path: str) -> dict[str, int]:
        with urllib.request.urlopen(self.url + path) as answer:
            content: dict[str, int] = json.load(answer)
            return content


async def measure(
    target: Target, server: Server, upstream: Upstream, requests: Sequence[Requests], *, at_once: bool
) -> Figures:
    """One round: all conversations at once, or one after the other."""
    figures = Figures()
    await target.all_at_once([each.before for each in requests])
    await settle(server)
    cpu, received = server.cpu(), upstream.received()
    started = time.perf_counter()
    if at_once:
        await target.all_at_once([each.measured for each in requests])
    else:
        for each in requests:
            figures.first_bytes += await target.converse(each.measured)
    taken = time.perf_counter() - started
    await settle(server)
    number = sum(len(each.measured) for each in requests)
    figures.cpu.append((server.cpu() - cpu) / number)
    figures.rates.append(number / taken)
    came = sum(len(body) for each in requests for body in each.measured)
    figures.shrunk.append((upstream.received() - received) / came)
    return figures


async def settle(server: Server) -> None:
    """Until what a proxy does after its answers is done: logs, totals, files. A short rest may be the scheduler's."""
    idle, before = 0, server.cpu()
    for _ in range(200):
        await asyncio.sleep(0.05)
        now = server.cpu()
        idle = idle + 1 if now - before < 0.002 else 0
        if idle == 3:
            return
        before = now


class BadAnswer(Exception):
    """A proxy failed a request, or left out a part of the answer."""


class Connection(asyncio.Protocol):
    """One request at a time. `first` is when the first byte of its answer came."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.first = 0.0
        self._buffer = bytearray()
        self._size: int | None = None
        self._chunked = False
        self._done: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._done and not self._done.done():
            self._done.set_exception(BadAnswer(f"connection lost: {error}, after {bytes(self._buffer[-200:])!r}"))

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self.first = time.perf_counter()
        self._buffer += data
        if self._done and not self._done.done() and self._complete():
            self._done.set_result(bytes(self._buffer))

    def ask(self, *parts: bytes) -> asyncio.Future[bytes]:
        assert self.transport
        self._buffer.clear()
        self._size, self._chunked = None, False
        self._done = asyncio.get_running_loop().create_future()
        self.transport.writelines(parts)
        return self._done

    def _complete(self) -> bool:
        if self._chunked:
            return self._buffer.endswith(LAST_CHUNK)
        if self._size is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            _, announced, length = bytes(self._buffer[:end]).lower().partition(b"\r\ncontent-length:")
            if not announced:
                self._chunked = True
                return self._buffer.endswith(LAST_CHUNK)
            self._size = end + 4 + int(length.split(b"\r\n", 1)[0])
        return len(self._buffer) >= self._size


@dataclass
class Target:
    """A proxy or the upstream itself, and the connections to it that are open."""

    port: int
    _idle: list[Connection] = field(default_factory=list)

    async def post(self, body: bytes) -> tuple[float, bytes]:
        """Seconds to the first byte, and the answer with its head."""
        loop = asyncio.get_running_loop()
        connection = self._idle.pop() if self._idle else None
        if connection is None or connection.transport is None or connection.transport.is_closing():
            _, connection = await loop.create_connection(Connection, "127.0.0.1", self.port)
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer sk-benchmark\r\nuser-agent: OpenAI/Python 3.40.0\r\naccept: application/json\r\n"
            f"x-stainless-lang: python\r\nx-stainless-async: async:asyncio\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        started = time.perf_counter()
        answer = await connection.ask(head.encode(), body)
        check(answer)
        self._idle.append(connection)
        return connection.first - started, answer

    async def converse(self, bodies: Sequence[bytes]) -> list[float]:
        """One after the other, as an agent does; seconds to the first byte of each."""
        return [(await self.post(body))[0] for body in bodies]

    async def all_at_once(self, conversations: Sequence[Sequence[bytes]]) -> list[float]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.converse(bodies)) for bodies in conversations]
        return [seconds for task in tasks for seconds in task.result()]

    def close(self) -> None:
        for connection in self._idle:
            if connection.transport:
                connection.transport.abort()


def check(answer: bytes) -> None:
    status, body = answer.split(b"\r\n", 1)
    if b" 200 " not in status + b" ":
        raise BadAnswer(answer[:2000].decode(errors="replace"))
    if b"word96" not in body or (b"text/event-stream" in body[:3000] and b"data: [DONE]" not in body[-100:]):
        raise BadAnswer(f"the end is missing: {answer[-300:].decode(errors='replace')}")
