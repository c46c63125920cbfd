"""Whatever a request asks for, it asks the configured provider for it, in its own spelling, or nobody."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.raw_http import Raw, in_background, proxy, raw_upstream, request


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Raw, str]]:
    @asynccontextmanager
    async def both() -> AsyncIterator[tuple[Raw, str]]:
        async with raw_upstream() as up, proxy(up.url) as (_, url):
            yield up, url

    with in_background(both) as ends:
        yield ends


_ascii = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=40)


@given(target=_ascii.map("/{}".format) | _ascii)
def test_any_target_is_passed_on_or_refused_and_goes_nowhere_else(wire: tuple[Raw, str], target: str) -> None:
    up, url = wire
    up.got.clear()
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(request("GET", target, [("Connection", "close")]))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    if up.got:
        assert [got.target.removesuffix("?") for got in up.got] == [target.removesuffix("?")]
        assert up.got[0]["host"] == up.url.removeprefix("http://")
    elif target == "/":
        assert answer.startswith(b"HTTP/1.1 302")
    else:
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 404"))
        assert not target.startswith("/") or b"Invalid" in answer or b"URL" in answer, answer
