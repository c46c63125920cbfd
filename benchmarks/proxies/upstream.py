"""A model provider that answers at once from precomputed bytes, cheap enough never to be what is measured.

Every POST gets the same completion: whole, or as 100 SSE chunks, each a write of its own: back to back, or with the
seconds between them that `GET /pace/SECONDS` set. `GET /seen` says how many requests came and how many bytes.

    python upstream.py PORT
"""

from __future__ import annotations

import asyncio
import json
import sys

CHUNKS = 100
HEADERS = (
    "date: Sat, 14 Nov 2026 10:00:00 GMT\r\n"
    "openai-organization: example\r\n"
    "openai-processing-ms: 12\r\n"
    "openai-version: 2020-10-01\r\n"
    "x-ratelimit-limit-requests: 10000\r\n"
    "x-ratelimit-remaining-requests: 9999\r\n"
    "x-ratelimit-remaining-tokens: 1999000\r\n"
    "x-ratelimit-reset-requests: 6ms\r\n"
    "x-request-id: req_0123456789abcdef0123456789abcdef\r\n"
)
USAGE = {"prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100}
COMMON = {"id": "chatcmpl-benchmark", "created": 1794650400, "model": "gpt-4.1-2025-04-14"}
WORDS = [f" word{number}" for number in range(CHUNKS - 3)]


def answer(content: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\n{HEADERS}content-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def completion() -> bytes:
    message = {"role": "assistant", "content": "".join(WORDS), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", **COMMON, "choices": [choice], "usage": USAGE}).encode()


def chunks() -> list[bytes]:
    """The first with the HTTP head, the last with the end of the body."""

    def event(delta: dict[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return json.dumps({"object": "chat.completion.chunk", **COMMON, "choices": [choice]})

    events = [event({"role": "assistant", "content": ""}), *(event({"content": word}) for word in WORDS)]
    lines = [f"data: {line}\n\n".encode() for line in (*events, event({}, "stop"), "[DONE]")]
    framed = [b"%x\r\n%b\r\n" % (len(line), line) for line in lines]
    kind = "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    framed[0] = f"HTTP/1.1 200 OK\r\n{HEADERS}{kind}".encode() + framed[0]
    framed[-1] += b"0\r\n\r\n"
    return framed


WHOLE = answer(completion())
STREAM = chunks()


class Upstream(asyncio.Protocol):
    """One connection. Reads just enough HTTP to find where a request ends."""

    requests = 0
    received = 0
    pace = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.head = b""
        self.body: list[bytes] = []
        self.missing: int | None = 0

    def data_received(self, data: bytes) -> None:
        if self.head:
            self._take(data)
            return
        self.body.append(data)
        head, end, rest = b"".join(self.body).partition(b"\r\n\r\n")
        if end:
            self.head, self.body = head, []
            fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:])
            self.missing = None if b"transfer-encoding" in fields else int(fields.get(b"content-length", b"0"))
            self._take(rest)

    def _take(self, data: bytes) -> None:
        self.body.append(data)
        if self.missing is None:
            complete = data.endswith(b"0\r\n\r\n")
        else:
            self.missing -= len(data)
            complete = self.missing <= 0
        if complete:
            head, body = self.head, b"".join(self.body)
            self.head, self.body = b"", []
            self._respond(head, body)

    def _respond(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            path = head.split(b" ", 2)[1]
            if path.startswith(b"/pace/"):
                Upstream.pace = float(path.removeprefix(b"/pace/"))
            seen = {"requests": Upstream.requests, "received": Upstream.received, "data": []}
            self.transport.write(answer(json.dumps(seen).encode()))
            return
        Upstream.requests += 1
        Upstream.received += len(body)
        if b'"stream":true' in body or b'"stream": true' in body:
            self._send(0)
        else:
            self.transport.write(WHOLE)

    def _send(self, number: int) -> None:
        self.transport.write(STREAM[number])
        if number + 1 < CHUNKS and not self.transport.is_closing():
            asyncio.get_running_loop().call_later(Upstream.pace, self._send, number + 1)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
