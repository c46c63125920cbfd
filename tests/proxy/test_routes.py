"""Which requests go where, and which of them are read: histories, and nothing else."""

import asyncio
import json
from typing import Any

import pytest

from focusctx import Focus
from focusctx.proxy.upstream import Upstream
from helpers import task
from helpers.histories import Messages, run
from helpers.provider import Provider
from helpers.raw_http import OK, Head, Line, Raw, connect, exchange, proxy, raw_upstream, request
from helpers.session_parts import Draft

pytestmark = pytest.mark.usefixtures("nothing_left")


LONG = 12
"""Steps of a history that is over the budget below."""


def eager() -> Focus:
    """Drops whatever may go, as soon as it may."""
    return Focus(Draft(), budget=50)


def chat(steps: int = LONG) -> Messages:
    return run(steps)


def anthropic(steps: int = LONG) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"result {number}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return messages


def responses(steps: int = LONG) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        messages.append({"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"})
        messages.append({"type": "function_call_output", "call_id": f"c{number}", "output": f"result {number}"})
    return messages


def gemini(steps: int = LONG) -> Messages:
    messages: Messages = [{"role": "user", "parts": [{"text": "Do the task."}]}]
    for number in range(1, steps + 1):
        result = {"functionResponse": {"name": "look", "response": {"output": f"result {number}"}}}
        messages.append({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]})
        messages.append({"role": "user", "parts": [result]})
    return messages


def ollama(steps: int = LONG) -> Messages:
    messages: Messages = [{"role": "user", "content": "Do the task."}]
    for number in range(1, steps + 1):
        calls = [{"function": {"name": "look", "arguments": {}}}]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages.append({"role": "tool", "tool_name": "look", "content": f"result {number}"})
    return messages


HISTORIES = {
    "/v1beta/models/gemini-3.8-flash:generateContent": ("contents", gemini),
    "/v1/models/gemini-3.8-flash:streamGenerateContent?alt=sse&key=k": ("contents", gemini),
    "/v1/projects/p/locations/l/publishers/google/models/gemini-3.8-flash:generateContent": ("contents", gemini),
    "/api/chat": ("messages", ollama),
    "/v1/chat/completions": ("messages", chat),
    "/chat/completions": ("messages", chat),
    "/v1/responses": ("input", responses),
    "/v1/messages": ("messages", anthropic),
    "/v1/messages?beta=true": ("messages", anthropic),
}


@pytest.mark.parametrize("path", HISTORIES)
async def test_histories_go_up_smaller(path: str) -> None:
    field, history = HISTORIES[path]
    body: dict[str, Any] = {
        "model": "scripted",
        "temperature": 1.0,
        field: history(),
        "stream": False,
        "metadata": {"é": "\ud83d"},
    }
    with Provider(task.model) as provider:
        async with proxy(provider.url, focus=eager()) as (_, url):
            answer = await exchange(url, "POST", path, [], json.dumps(body).encode())
    assert answer.status == 200
    assert provider.rejected == []
    (received,) = provider.received
    assert f"{received.path}?{received.query}".rstrip("?") == path
    assert received.messages[0] == body[field][0]
    assert received.messages[-2:] == body[field][-2:]
    assert len(received.messages) < len(body[field])
    assert {**received.body, field: ()} == {**body, field: ()}


@pytest.mark.parametrize(
    "body",
    [
        {"input": responses(), "previous_response_id": "resp_1"},
        {"input": responses(), "conversation": "conv_1"},
        {"input": responses(), "conversation": {"id": "conv_1"}},
        {"input": "Do the task. " * 500},
        {"previous_response_id": "resp_1"},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
async def test_where_the_provider_holds_the_history_nothing_is_touched(body: dict[str, object]) -> None:
    text = json.dumps(body, indent=3).encode()
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (served, url):
        await exchange(url, "POST", "/v1/responses", [("x-a", "b")], text)
        assert len(served.conversations) == 0
    assert up.got[0].body == text


@pytest.mark.parametrize("none", [None, ""])
async def test_an_empty_reference_is_none(none: object) -> None:
    body: dict[str, Any] = {"model": "m", "input": responses(), "previous_response_id": none, "conversation": None}
    async with raw_upstream() as up, proxy(up.url, focus=eager()) as (_, url):
        await exchange(url, "POST", "/v1/responses", [], json.dumps(body).encode())
    sent = json.loads(up.got[0].body)
    assert len(sent["input"]) < len(body["input"])
    assert sent["previous_response_id"] == none


async def test_short_histories_go_up_as_they_were_written() -> None:
    text = json.dumps({"model": "m", "messages": chat(2)}, indent=1).encode()
    async with raw_upstream() as up, proxy(up.url, focus=Focus(Draft(), budget=10_000)) as (_, url):
        await exchange(url, "POST", "/v1/chat/completions", [], text)
    assert up.got[0].body == text


async def test_a_dry_run_changes_nothing_and_tells() -> None:
    text = json.dumps({"model": "m", "messages": chat()}).encode()
    async with raw_upstream() as up, proxy(up.url, focus=eager(), dry_run=True) as (served, url):
        await exchange(url, "POST", "/v1/chat/completions", [], text)
        (live,) = served.conversations
        assert live.steps[-1].sent < live.steps[-1].full
    assert up.got[0].body == text


async def test_tokens_are_counted_of_what_would_go_up() -> None:
    with Provider(task.model) as provider:
        async with proxy(provider.url, focus=eager()) as (_, url):

            async def count(history: Messages) -> int:
                body = json.dumps({"model": "m", "messages": history}).encode()
                answer = await exchange(url, "POST", "/v1/messages/count_tokens", [("x-api-key", "k")], body)
                return int(json.loads(answer.body)["input_tokens"])

            whole = await count(anthropic())
            assert whole > len(json.dumps(anthropic())) // 4, "an unknown conversation is counted as it is"
            body = json.dumps({"model": "m", "messages": anthropic()}).encode()
            await exchange(url, "POST", "/v1/messages", [("x-api-key", "k")], body)
            assert await count(anthropic()) < whole
            assert await count(anthropic(LONG + 1)) < whole, "the next step of a known conversation"
            other = json.dumps({"model": "m", "messages": anthropic()}).encode()
            answer = await exchange(url, "POST", "/v1/messages/count_tokens", [("x-api-key", "another")], other)
            assert json.loads(answer.body)["input_tokens"] == whole, "another caller's decisions are not his"


async def test_models() -> None:
    with Provider(task.model) as provider:
        async with proxy(provider.url) as (_, url):
            openai = json.loads((await exchange(url, "GET", "/v1/models")).body)
            claude = json.loads((await exchange(url, "GET", "/v1/models", [("anthropic-version", "1")])).body)
    assert openai["object"] == "list"
    assert claude["has_more"] is False


TARGETS = [
    "/v1/models?limit=20&after=%20x+y",
    "/v1/files/a%2Fb/content",
    "/a//b/../c/./d%zz",
    "/%e2%82%ac?q=%E2%82%AC&&;",
    "//evil.example/v1/models",
    "/v1/models:list@all,now!$'()*~",
    "/v1/x%0Ay%00z",
    "/healthz/deeper",
    "/v1/chat/completions/chatcmpl-1",
]


@pytest.mark.parametrize("target", TARGETS)
async def test_targets_are_passed_on_as_they_are_spelled(target: str) -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        await exchange(url, "GET", target)
    assert [got.target for got in up.got] == [target]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"])
async def test_every_method_is_passed_on(method: str) -> None:
    async with raw_upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as up, proxy(up.url) as (_, url):
        await exchange(url, method, "/v1/vector_stores/1")
        if method not in ("GET", "HEAD"):
            await exchange(url, method, "/v1/vector_stores/1", [("x-one", "1")], b"abc")
            assert up.got[1].body == b"abc"
            assert up.got[1]["content-length"] == "3"
    assert up.got[0].first.split(" ")[0] == method


async def test_post_on_a_get_route_of_ours_is_the_provider_s() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        await exchange(url, "POST", "/healthz", [], b"x")
        await exchange(url, "GET", "/healthz")
    assert [got.first for got in up.got] == ["POST /healthz HTTP/1.1"]


@pytest.mark.parametrize("path", ["/v1/files", "/v1/chat/completions"])
async def test_what_is_longer_than_the_limit_is_streamed_with_its_length(path: str) -> None:
    """Neither held nor changed, and on its way before its end is there."""
    part, parts = bytes(range(256)) * 256, 80  # 5 MB
    halfway: list[int] = []

    async def answer(line: Line, head: Head) -> None:
        body = b""
        while len(body) < len(part) * parts:
            body += await line.reader.read(1 << 16)
            if len(body) >= 8 * len(part):
                halfway.append(len(body))
        seen.append((head, body))
        await line.send(OK)

    seen: list[tuple[Head, bytes]] = []
    async with raw_upstream(answer) as up, proxy(up.url, body_limit=1 << 19) as (_, url), await connect(url) as line:
        length = ("Content-Length", str(len(part) * parts))
        await line.send(request("POST", path, [length, ("Content-Type", "multipart/form-data; boundary=b")]))
        for number in range(parts):
            await line.send(part)
            if number == parts // 2:
                while not halfway:  # the provider has the first half, and the caller has not sent the second one
                    await asyncio.sleep(0.005)
        assert (await line.whole()).status == 200
    ((head, body),) = seen
    assert body == part * parts
    assert head["content-length"] == str(len(body))
    assert "transfer-encoding" not in head
    assert head["content-type"] == "multipart/form-data; boundary=b"


async def test_a_chunked_upload_stays_one() -> None:
    async with raw_upstream() as up, proxy(up.url, body_limit=10) as (_, url):
        for path in ("/v1/files", "/v1/chat/completions"):
            async with await connect(url) as line:
                await line.send(request("POST", path, [("Transfer-Encoding", "chunked")]))
                for piece in (b"first ", b"second ", b"third"):
                    await line.chunk(piece)
                await line.send(b"0\r\n\r\n")
                assert (await line.whole()).status == 200
    assert [got.body for got in up.got] == [b"first second third"] * 2
    assert [got["transfer-encoding"] for got in up.got] == ["chunked"] * 2


async def test_several_upstreams() -> None:
    async with raw_upstream() as one, raw_upstream() as two, raw_upstream() as claude:
        ups = (Upstream("one", one.url), Upstream("two", f"{two.url}/base"), Upstream("anthropic", claude.url))
        async with proxy(*ups) as (_, url):

            async def where(target: str, *headers: tuple[str, str]) -> tuple[str, str]:
                for raw in (one, two, claude):
                    raw.got.clear()
                answer = await exchange(url, "POST", target, list(headers), b"{}")
                assert answer.status == 200
                ((name, got),) = [
                    (name, raw.got[0]) for name, raw in (("one", one), ("two", two), ("claude", claude)) if raw.got
                ]
                assert "x-focusctx-upstream" not in got
                return name, got.target

            header = "x-focusctx-upstream"
            assert await where("/v1/chat/completions") == ("one", "/v1/chat/completions")
            assert await where("/two/v1/embeddings?a=b") == ("two", "/base/v1/embeddings?a=b")
            assert await where("/v1/embeddings", (header, "two")) == ("two", "/base/v1/embeddings")
            assert await where("/one/v1/x", (header, "two")) == ("two", "/base/one/v1/x")
            assert await where("/v1/messages?beta=true") == ("claude", "/v1/messages?beta=true")
            assert await where("/v1/messages/batches") == ("claude", "/v1/messages/batches")
            assert await where("/v1/models", ("anthropic-version", "2023-06-01")) == ("claude", "/v1/models")
            assert await where("/one/v1/messages", ("anthropic-version", "2023-06-01")) == ("one", "/v1/messages")
            assert await where("/twofold/v1") == ("one", "/twofold/v1")
            assert await where("/two") == ("one", "/two")

            refused = await exchange(url, "POST", "/v1/x", [(header, "three")], b"{}")
            assert refused.status == 404
            assert "unknown upstream" in json.loads(refused.body)["error"]["message"]
            assert refused["x-focusctx-error"] == "1"


async def test_prefixed_histories_are_compressed_too() -> None:
    body = json.dumps({"model": "m", "messages": chat()}).encode()
    async with (
        raw_upstream() as one,
        raw_upstream() as two,
        proxy(Upstream("one", one.url), Upstream("two", two.url), focus=eager()) as (_, url),
    ):
        await exchange(url, "POST", "/two/v1/chat/completions", [], body)
    assert len(json.loads(two.got[0].body)["messages"]) < len(chat())


@pytest.mark.parametrize(
    ("base", "path", "there"),
    [
        ("http://HOST", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://HOST/", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://HOST/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://HOST/v1/", "/v1/models?a", "/v1/models?a"),
        ("http://HOST/api", "/v1/models", "/api/v1/models"),
        ("http://HOST/api/v1", "/v1/models", "/api/v1/models"),
        ("http://HOST/api/paas/v4", "/v1/chat/completions", "/api/paas/v4/chat/completions"),
        ("http://HOST/v1beta/openai", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
        ("http://HOST/v1beta/openai", "/v1beta/models/gemini:generateContent", "/v1beta/models/gemini:generateContent"),
        ("http://HOST/v1beta/openai", "/v1/models/gemini:generateContent?a", "/v1/models/gemini:generateContent?a"),
    ],
)
async def test_base_urls_as_agents_write_them(base: str, path: str, there: str) -> None:
    async with raw_upstream() as up:
        named = Upstream.named(f"provider={base.replace('http://HOST', up.url)}")
        async with proxy(named) as (_, url):
            await exchange(url, "POST", path, [], b"{}")
    assert up.got[0].target == there


async def _refused(url: str, head: bytes, up: Raw, elsewhere: Raw) -> None:
    async with await connect(url) as line:
        await line.send(head)
        answer = await line.whole()
    assert answer.status in (400, 404)
    assert up.got == elsewhere.got == []
    assert elsewhere.connections == up.connections == 0


@pytest.mark.parametrize(
    "start",
    [
        "GET {elsewhere}/v1/models",
        "GET http://127.0.0.1/v1/models",
        "POST community://x/v1/models",
        "CONNECT {host}",
        "CONNECT 127.0.0.1:443",
        "OPTIONS *",
        "GET @{host}/",
        "GET .{host}/",
        "GET \\\\{host}/",
    ],
)
async def test_it_is_no_open_relay(start: str) -> None:
    """A request cannot name the host it goes to, in no way."""
    async with raw_upstream() as up, raw_upstream() as elsewhere, proxy(up.url) as (_, url):
        line = start.format(elsewhere=elsewhere.url, host=elsewhere.url.removeprefix("http://"))
        await _refused(url, f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(), up, elsewhere)


async def test_the_host_header_names_nothing_either() -> None:
    async with raw_upstream() as up, raw_upstream() as elsewhere, proxy(up.url) as (_, url):
        host = elsewhere.url.removeprefix("http://")
        for header in ("Host", "X-Forwarded-Host", "Forwarded"):
            async with await connect(url) as line:
                await line.send(f"GET /v1/models HTTP/1.1\r\n{header}: {host}\r\nx-y: z\r\n\r\n".encode())
                assert (await line.whole()).status in (200, 400)
        assert {got["host"] for got in up.got} == {up.url.removeprefix("http://")}
    assert elsewhere.connections == 0
