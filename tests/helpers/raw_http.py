"""HTTP by hand, on both sides of the proxy: what an HTTP library would put right, repair or hide shows here."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from focusctx import Focus
from focusctx.proxy.app import Proxy
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream

T = TypeVar("T")

Headers = list[tuple[str, str]]
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Head:
    """A request or an answer up to its body."""

    first: str
    headers: Headers

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def __getitem__(self, name: str) -> str:
        return ", ".join(self.all(name))

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    @property
    def target(self) -> str:
        return self.first.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])


@dataclass(slots=True)
class Whole(Head):
    body: bytes = b""


class Line:
    """One connection, from either end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def head(self) -> Head:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        parted = [line.partition(":") for line in lines]
        return Head(first, [(name, value.strip()) for name, _, value in parted])

    async def read_chunk(self) -> bytes:
        """Empty for the last one."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def body(self, head: Head, *, until_end: bool = False) -> bytes:
        if "transfer-encoding" in head:
            body = b""
            while chunk := await self.read_chunk():
                body += chunk
            return body
        if "content-length" in head:
            return await self.reader.readexactly(int(head["content-length"]))
        return await self.reader.read() if until_end else b""

    async def whole(self, *, has_body: bool = True) -> Whole:
        head = await self.head()
        return Whole(head.first, head.headers, await self.body(head) if has_body else b"")

    async def ended(self) -> bytes:
        """What still came until the other side closed."""
        with suppress(ConnectionResetError):
            return await self.reader.read()
        return b""

    def reset(self) -> None:
        """Cut, so that the other side gets an error and not an end."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


Answer = Callable[[Line, Head], Awaitable[object]]


@dataclass(slots=True)
class Raw:
    """A provider made by hand."""

    url: str = ""
    got: list[Whole] = field(default_factory=list)
    """Requests that were read whole."""
    connections: int = 0
    open: int = 0
    broken: list[Exception] = field(default_factory=list)
    """What connections of the proxy ended with where it was not their plain end."""


@asynccontextmanager
async def raw_upstream(answer: bytes | Answer = OK, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """Answers every request with the same bytes, or as the function does with the rest of the request."""
    raw = Raw()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(line: Line) -> None:
        raw.connections += 1
        raw.open += 1
        try:
            while True:
                head = await line.head()
                if isinstance(answer, bytes):
                    raw.got.append(Whole(head.first, head.headers, await line.body(head)))
                    await line.send(answer)
                elif await answer(line, head):
                    return
        except asyncio.IncompleteReadError as end:
            if end.partial:
                raw.broken.append(end)
        except ConnectionError as error:
            raw.broken.append(error)
        finally:
            raw.open -= 1
            line.writer.close()

    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(Line(reader, writer)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(start, "127.0.0.1", 0, limit=1 << 20, backlog=2048, ssl=tls)
    raw.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def proxy(
    *upstreams: str | Upstream, focus: Focus | None = None, **settings: Any
) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy in this very loop. Money is not weighed unless it is asked for."""
    named = tuple(
        each if isinstance(each, Upstream) else Upstream(f"up{number}", each) for number, each in enumerate(upstreams)
    )
    chosen = {"store": "memory", "port": 0, "grace": 0.2, **settings}
    async with serving(focus or Focus("offline"), Settings(named, **chosen)) as (served, url):
        yield served, url


async def connect(url: str, *, limit: int = 1 << 20) -> Line:
    host, _, port = url.removeprefix("http://").partition(":")
    return Line(*await asyncio.open_connection(host, int(port), limit=limit))


def request(
    method: str = "GET", target: str = "/v1/models", headers: Headers | None = None, body: bytes | None = None
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers or ())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


async def exchange(
    url: str,
    method: str = "GET",
    target: str = "/v1/models",
    headers: Headers | None = None,
    body: bytes | None = None,
) -> Whole:
    """One request on a connection of its own."""
    async with await connect(url) as line:
        await line.send(request(method, target, headers, body))
        return await line.whole(has_body=method != "HEAD")


@contextmanager
def in_background(both: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """What an asynchronous `with` gives, in a thread with a loop of its own: for tests that have none."""
    given: Future[tuple[T, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def hold() -> None:
        end = asyncio.Event()
        async with both() as value:
            given.set_result((value, asyncio.get_running_loop(), end))
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(hold(),), daemon=True)
    thread.start()
    value, loop, end = given.result(10)
    try:
        yield value
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


async def eventually(condition: Callable[[], bool], seconds: float = 2.0) -> bool:
    """Whether it comes true in time."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.005)
    return condition()
