"""Answers with an odd head get a 502 and one line in the log, and the next request is answered as usual."""

import logging

import pytest

from helpers.raw_http import OK, Head, Line, exchange, proxy, raw_upstream
from helpers.troubled import CHAT, history

pytestmark = pytest.mark.usefixtures("nothing_left")

ODD = {
    "control character in a header": b"HTTP/1.1 200 OK\r\nx-odd: a\x01b\r\ncontent-length: 2\r\n\r\n{}",
    "escape character in a header": b"HTTP/1.1 200 OK\r\nx-odd: \x1b[31m\r\ncontent-length: 2\r\n\r\n{}",
    "zero byte in a header": b"HTTP/1.1 200 OK\r\nx-odd: a\0b\r\ncontent-length: 2\r\n\r\n{}",
    "bare carriage return in a header": b"HTTP/1.1 200 OK\r\nx-odd: a\rb: c\r\ncontent-length: 2\r\n\r\n{}",
    "control character in the reason": b"HTTP/1.1 200 O\x7fK\r\ncontent-length: 2\r\n\r\n{}",
    "status 000": b"HTTP/1.1 000 Nothing\r\ncontent-length: 2\r\n\r\n{}",
    "status 099": b"HTTP/1.1 099 Little\r\ncontent-length: 2\r\n\r\n{}",
    "status of four digits": b"HTTP/1.1 2000 Much\r\ncontent-length: 2\r\n\r\n{}",
    "unasked 101": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81\x02hi",
    "unasked 101 without Upgrade": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "the same length twice": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 1\r\n\r\n{}",
    "length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
    "length that is no number": b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n{}",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "a name that is no name": b"HTTP/1.1 200 OK\r\nx odd: a\r\ncontent-length: 2\r\n\r\n{}",
    "a header that is too long": b"HTTP/1.1 200 OK\r\nx-odd: %s\r\ncontent-length: 2\r\n\r\n{}" % (b"a" * 300_000),
    "too many headers": b"HTTP/1.1 200 OK\r\n%s\r\n" % (b"x-odd: a\r\n" * 2000),
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "nothing": b"",
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("recall", [False, True], ids=["plain", "recall"])
async def test_an_odd_head_is_a_502(odd: bytes, recall: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(line: Line, head: Head) -> bool:
        await line.body(head)
        if head.target == "/fine":
            await line.send(OK)
            return False
        await line.send(odd)
        return b"\r\n\r\n" not in odd

    with caplog.at_level(logging.INFO):
        async with raw_upstream(answer) as up, proxy(up.url, recall=recall) as (_, url):
            got = await exchange(url, "POST", CHAT + "?key=sk-secret", [], history(2))
            assert (await exchange(url, "POST", "/fine", [], b"{}")).status == 200
    assert got.status == 502
    assert b"up0 did not answer: " in got.body
    assert b"sk-secret" not in got.body
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.levelno == logging.WARNING
    assert line.exc_info is None
    assert "sk-secret" not in line.getMessage()


@pytest.mark.parametrize(
    "fine",
    [
        b"HTTP/1.1 200 OK\r\nx-tab: a\tb\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx-utf8: caf\xc3\xa9\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx-latin1: caf\xe9\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 caf\xc3\xa9 \xe9\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 299 Odd\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 999 Odder\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx-long: %s\r\ncontent-length: 2\r\n\r\n{}" % (b"a" * 100_000),
        b"HTTP/1.1 200 OK\r\n%scontent-length: 2\r\n\r\n{}" % (b"x-many: a\r\n" * 500),
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK,
    ],
    ids=lambda head: repr(head[:40]),
)
async def test_unusual_heads_that_every_client_takes_are_passed_on(fine: bytes) -> None:
    async with raw_upstream(fine) as up, proxy(up.url) as (_, url):
        got = await exchange(url, "POST", CHAT, [], history(2))
    assert 200 <= got.status < 1000
    assert got["x-focusctx-error"] == ""
    assert got.body == b"{}"


async def test_an_outage_is_logged_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    async def gone(line: Line, head: Head) -> bool:
        await line.body(head)
        return True

    async with raw_upstream(gone) as up, proxy(up.url) as (_, url):
        for _ in range(20):
            assert (await exchange(url, "POST", CHAT, [], history(2))).status == 502
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
