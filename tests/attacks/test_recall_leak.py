"""With recall on, the agent never sees a call of the recall tool, whatever the provider does to its answers."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest

from focusctx.proxy.request import zstd
from focusctx.session.recall import TOOL
from helpers.raw_http import Head, Line, Whole, exchange, proxy, raw_upstream
from helpers.troubled import CHAT, eager, history
from proxy.recall.harness import RECALL, stream_of, whole_of
from spoken import Say

pytestmark = pytest.mark.usefixtures("nothing_left")

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "GZip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}
UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "gzip, gzip": lambda body: gzip.compress(gzip.compress(body)),
    "br, gzip": lambda body: gzip.compress(brotli.compress(body)),
    "compress": bytes,
    "x-own": bytes,
}
FINAL = "Done."


async def turn(encoding: str, pack: Callable[[bytes], bytes], *, streamed: bool) -> tuple[Whole, list[bytes]]:
    """One turn with a model that recalls first: what the agent gets, and the requests that went up."""
    asked: list[bytes] = []
    kind = "text/event-stream" if streamed else "application/json"
    spoken = stream_of if streamed else whole_of

    async def answer(line: Line, head: Head) -> None:
        asked.append(await line.body(head))
        assert head["accept-encoding"] == "identity"
        say = Say("", (RECALL,)) if len(asked) == 1 else Say(FINAL)
        body = pack(spoken(say, "chat_completions", len(asked)))
        lines = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {encoding}\r\n"
        await line.send(f"{lines}transfer-encoding: chunked\r\n\r\n".encode())
        for start in range(0, len(body), 100):
            await line.chunk(body[start : start + 100])
        await line.send(b"0\r\n\r\n")

    request = json.loads(history())
    request |= {"stream": streamed, "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}
    accepts = [("Accept-Encoding", "gzip, deflate, br, zstd")]
    async with raw_upstream(answer) as up, proxy(up.url, focus=eager(), recall=True) as (_, url):
        got = await asyncio.wait_for(exchange(url, "POST", CHAT, accepts, json.dumps(request).encode()), 10)
    return got, asked


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("encoding", PACKED)
async def test_a_compressed_answer_is_looked_into(encoding: str, streamed: bool) -> None:
    got, asked = await turn(encoding, PACKED[encoding], streamed=streamed)
    assert got.status == 200
    assert got["content-encoding"] in ("", "identity")
    assert TOOL.encode() not in got.body
    assert len(asked) == 2, "the call was answered here"
    assert FINAL.encode() in got.body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("encoding", UNREADABLE)
async def test_an_answer_that_cannot_be_read_is_not_shown(encoding: str, streamed: bool) -> None:
    got, asked = await turn(encoding, UNREADABLE[encoding], streamed=streamed)
    assert got.status == 502
    assert b"without --recall" in got.body
    assert len(asked) == 1


async def test_a_refusal_is_passed_on_however_it_is_compressed() -> None:
    text = b'{"error": {"message": "slow down"}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 3\r\n"
    request = json.loads(history())
    request["tools"] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    for encoding, body in ((b"gzip", gzip.compress(text)), (b"x-own", text)):
        answer = head + b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n%s" % (encoding, len(body), body)
        async with raw_upstream(answer) as up, proxy(up.url, focus=eager(), recall=True) as (_, url):
            got = await exchange(url, "POST", CHAT, [], json.dumps(request).encode())
        assert (got.status, got["retry-after"], got.body) == (429, "3", text)
        assert got["content-encoding"] == ("" if encoding == b"gzip" else "x-own")
