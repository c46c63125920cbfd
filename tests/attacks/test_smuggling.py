"""Request smuggling: bytes of one caller's request must never be read as part of another's."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.nginx import Nginx, nginx
from raw_http import Headers, connect, exchange, proxy, request

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
HANDSHAKE = [*UPGRADE, ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
VICTIM = b'{"model": "m", "messages": [{"role": "user", "content": "the password is swordfish"}]}'


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Nginx]:
    """A provider behind nginx, which refuses WebSockets at once and answers all else with the caller's key."""
    locations = """
    location /v1/responses { return 404 "no such page"; }
    location / { return 200 "$request_method $uri $http_authorization"; }
    """
    with nginx(tmp_path, locations) as running:
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        [*HANDSHAKE, ("Content-Length", "300")],
        [*UPGRADE, ("Content-Length", "300")],
        [("Upgrade", "websocket"), ("Content-Length", "300")],
        [*HANDSHAKE, ("Transfer-Encoding", "chunked")],
        [*HANDSHAKE, ("Connection", "Content-Length"), ("Content-Length", "300")],
    ],
    ids=["handshake", "no key", "no Connection", "chunked", "length named in Connection"],
)
async def test_an_upgrade_with_a_body_does_not_swallow_the_next_request(provider: Nginx, headers: Headers) -> None:
    async with proxy(provider.url) as (_, url):
        for _ in range(3):
            attacker = await connect(url)
            await attacker.send(request("GET", "/v1/responses", headers))
            await asyncio.sleep(0.1)
            victim = exchange(url, "POST", "/v1/chat/completions", [("Authorization", "Bearer sk-victim")], VICTIM)
            got = await asyncio.wait_for(victim, 5)
            assert got.status == 200
            assert got.body == b"POST /v1/chat/completions Bearer sk-victim"
            await attacker.close()
    victims = [line for line in provider.seen() if "sk-victim" in line[1]]
    assert victims == [["POST /v1/chat/completions HTTP/1.1", "Bearer sk-victim", "200"]] * 3
