"""Connections are kept on both sides, and what one request leaves on them is not in the way of the next."""

import asyncio
import socket
from typing import Any

import pytest

from focusctx.proxy import client
from helpers.raw_http import OK, Head, Line, Raw, connect, eventually, exchange, proxy, raw_upstream, request

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_connections_are_kept_on_both_sides() -> None:
    async with raw_upstream() as up, proxy(up.url) as (_, url), await connect(url) as line:
        for number in range(10):
            await line.send(request("POST", f"/v1/{number}", [], b"{}"))
            assert (await line.whole()).status == 200
        assert up.connections == 1
        assert len(up.got) == 10


async def test_a_provider_that_answers_before_it_has_read_all() -> None:
    """Too large, it says at once; the agent reads that although it is still sending."""

    async def answer(line: Line, head: Head) -> bool:
        await line.send(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!")
        await line.reader.read(1000)
        return True

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url), await connect(url) as line:
        await line.send(request("POST", "/v1/files", [("Content-Length", "50000000")]) + b"x" * 100_000)
        got = await line.whole()
        assert (got.status, got.body) == (413, b"no!")


async def test_idle_connections_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_KEEP_IDLE", 0.2)

    def all_gone(up: Raw) -> bool:
        return up.open == 0

    async with raw_upstream() as up, proxy(up.url) as (_, url):
        await asyncio.gather(*(exchange(url) for _ in range(5)))
        assert up.open > 0
        assert await eventually(lambda: all_gone(up))
        assert (await exchange(url)).status == 200


async def test_tcp_keepalive_is_on_for_answers_that_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    usual = client._new_socket

    def note(address: tuple[Any, ...]) -> socket.socket:
        made.append(usual(address))
        return made[-1]

    monkeypatch.setattr(client, "_new_socket", note)
    async with raw_upstream() as up, proxy(up.url) as (_, url):
        assert (await exchange(url)).status == 200
        assert [end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for end in made] == [1]
        assert client._PROBE_OPTION is None or made[0].getsockopt(socket.IPPROTO_TCP, client._PROBE_OPTION) == 60


async def test_a_request_that_was_not_taken_whole_leaves_no_rest_for_the_next_one() -> None:
    """The provider answers at once and keeps the connection, with most of the request still on its way."""
    asked: list[str] = []

    async def answer(line: Line, head: Head) -> None:
        asked.append(head.target)
        if head.target == "/big":
            await line.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!")
            await asyncio.sleep(0.3)
            await line.body(head)
        else:
            await line.send(OK)

    async with raw_upstream(answer) as up, proxy(up.url) as (_, url):
        assert (await exchange(url, "POST", "/big", [], b"x" * 20_000_000)).status == 413
        assert (await exchange(url, "GET", "/next")).status == 200
    assert asked == ["/big", "/next"]
    assert up.connections == 2


def test_one_line_per_provider_and_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    outages = client.Outages(lambda: now)
    for _ in range(50):
        outages.failed("openai", "no connection")
    outages.failed("anthropic", "invalid HTTP response")
    assert caplog.messages == ["openai: no connection", "anthropic: invalid HTTP response"]
    now += client._LOG_INTERVAL
    outages.failed("openai", "no connection within 30 s")
    outages.failed("openai", "no connection within 30 s")
    assert caplog.messages[2:] == ["openai: no connection within 30 s (49 more failed since the last line about it)"]
    now += 10 * client._LOG_INTERVAL
    outages.failed("openai", "no connection")
    assert caplog.messages[3:] == ["openai: no connection (1 more failed since the last line about it)"]
