"""How providers are reached: directly, through the proxy that the environment names, by TLS."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from focusctx.proxy import client
from helpers.certificates import certificate_for
from helpers.raw_http import Answer, Head, Line, Whole, exchange, proxy, raw_upstream

pytestmark = pytest.mark.usefixtures("nothing_left")

Name = Callable[[str, str], None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Name:
    """Sets variables, in an environment without a proxy."""
    for name in ("REQUEST_METHOD", *(f"{name}_PROXY" for name in ("NO", "HTTP", "HTTPS", "ALL"))):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch.setenv


def with_password(url: str) -> str:
    return url.replace("http://", "http://me:p%40ss@")


BASIC = f"Basic {b64encode(b'me:p@ss').decode()}"


async def test_a_proxy_for_plain_addresses_reads_along(environment: Name) -> None:
    async with raw_upstream() as way_out:
        environment("http_proxy", with_password(way_out.url))
        async with proxy("http://provider.invalid/base") as (_, url):
            assert (await exchange(url, "GET", "/v1/models?a=b")).status == 200
        async with raw_upstream() as local, proxy(local.url) as (_, url):
            assert (await exchange(url)).status == 200
            assert local.connections == 1, "this machine is reached without it"
            assert "proxy-authorization" not in local.got[0]
    (got,) = way_out.got
    assert got.target == "http://provider.invalid/base/v1/models?a=b"
    assert got["host"] == "provider.invalid"
    assert got["proxy-authorization"] == BASIC


async def test_hosts_that_want_no_proxy(environment: Name) -> None:
    async with raw_upstream() as way_out:
        environment("http_proxy", way_out.url)
        environment("no_proxy", ".invalid")
        async with proxy("http://provider.invalid") as (_, url):
            got = await exchange(url)
    assert got.status == 502
    assert b"no connection to provider.invalid" in got.body
    assert way_out.connections == 0


class Tunnel:
    """A proxy that joins whoever asks with the one server it knows, and does not look into what goes by."""

    def __init__(self, to: str, first: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.port = int(to.rpartition(":")[2])
        self.first = first
        self.asked: list[Head] = []

    async def __call__(self, line: Line, head: Head) -> bool:
        self.asked.append(head)
        await line.send(self.first)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        there = asyncio.create_task(_pipe(line.reader, writer))
        try:
            await _pipe(reader, line.writer)
        finally:
            there.cancel()
            writer.close()
        return True


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()


async def test_through_a_tunnel_to_a_provider_by_tls(tmp_path: Path, environment: Name) -> None:
    shown, context = certificate_for("DNS:provider.test", tmp_path)
    environment("SSL_CERT_FILE", str(shown))
    async with raw_upstream(tls=context) as up:
        tunnel = Tunnel(up.url)
        async with raw_upstream(tunnel) as way_out:
            environment("https_proxy", with_password(way_out.url))
            async with proxy("https://provider.test") as (_, url):
                for number in range(3):
                    assert (await exchange(url, "POST", f"/v1/{number}", [], b"x" * 300_000)).status == 200
            assert [head.first for head in tunnel.asked] == ["CONNECT provider.test:443 HTTP/1.1"]
            assert tunnel.asked[0]["proxy-authorization"] == BASIC
    assert [got.target for got in up.got] == ["/v1/0", "/v1/1", "/v1/2"]
    assert all(got["host"] == "provider.test" and "proxy-authorization" not in got for got in up.got)
    assert up.got[0].body == b"x" * 300_000


async def test_behind_a_tunnel_the_provider_must_be_who_it_is_said_to_be(tmp_path: Path, environment: Name) -> None:
    shown, context = certificate_for("DNS:somebody.test", tmp_path)
    environment("SSL_CERT_FILE", str(shown))
    async with raw_upstream(tls=context) as up, raw_upstream(Tunnel(up.url)) as way_out:
        environment("https_proxy", way_out.url)
        async with proxy("https://provider.test") as (_, url):
            got = await exchange(url, "POST", "/v1/x", [("Authorization", "Bearer sk-secret")], b"{}")
    assert got.status == 502
    assert b"certificate" in got.body
    assert not up.got


async def refused_by(way_out: Answer, environment: Name) -> Whole:
    """What an agent hears whose provider is to be reached through this proxy."""
    async with raw_upstream(way_out) as up:
        environment("https_proxy", up.url)
        async with proxy("https://provider.test") as (_, url):
            return await exchange(url, "POST", "/v1/x", [], b"{}")


async def test_a_proxy_that_lets_nobody_through(environment: Name) -> None:
    async def refuse(line: Line, _head: Head) -> bool:
        await line.send(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        return True

    got = await refused_by(refuse, environment)
    assert got.status == 502
    assert b"407 Who are you" in got.body


async def test_a_connection_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, environment: Name) -> None:
    monkeypatch.setattr(client, "_CONNECT_TIMEOUT", 0.2)

    async def silent(line: Line, _head: Head) -> bool:
        await line.reader.read()
        return True

    got = await refused_by(silent, environment)
    assert got.status == 504
    assert b"no connection within" in got.body
