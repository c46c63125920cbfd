"""The proxy that the environment asks for is used, or refused in words: no request ever goes around it unnoticed."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from focusctx import ConfigError, Focus
from focusctx.egress import proxy_for
from helpers.certificates import certificate_for
from helpers.raw_http import OK, Head, Line, exchange, proxy, raw_upstream

pytestmark = pytest.mark.usefixtures("bounded")

NAMES = [f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")]
SetEnvironment = Callable[[str, str], None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> SetEnvironment:
    """Sets variables, in an environment without a proxy."""
    for name in (*NAMES, *(name.lower() for name in NAMES), "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


HONOURED = [
    ({"HTTPS_PROXY": "http://out:3128"}, "https://api.test", "http://out:3128"),
    ({"https_proxy": "http://out:3128"}, "https://api.test", "http://out:3128"),
    ({"HTTPS_PROXY": "https://out"}, "https://api.test", "https://out"),
    ({"HTTPS_PROXY": "out:3128"}, "https://api.test", "http://out:3128"),
    ({"HTTPS_PROXY": "me:p%40ss@out:3128"}, "https://api.test", "http://me:p%40ss@out:3128"),
    ({"ALL_PROXY": "http://out:3128"}, "https://api.test", "http://out:3128"),
    ({"ALL_PROXY": "out:3128"}, "http://api.test", "http://out:3128"),
    ({"ALL_PROXY": "socks5://out", "HTTPS_PROXY": "http://out:3128"}, "https://api.test", "http://out:3128"),
    ({"HTTP_PROXY": "http://out:3128"}, "https://api.test", None),
    ({"HTTP_PROXY": "http://out:3128"}, "http://api.test", "http://out:3128"),
    ({"HTTPS_PROXY": "http://out:3128", "NO_PROXY": "api.test"}, "https://api.test", None),
    ({"HTTPS_PROXY": "http://out:3128", "NO_PROXY": ".test"}, "https://api.test", None),
    ({"HTTPS_PROXY": "http://out:3128", "NO_PROXY": "api.test:8443"}, "https://api.test:8443", None),
    ({"HTTPS_PROXY": "http://out:3128", "NO_PROXY": "api.test:8443"}, "https://api.test", "http://out:3128"),
    ({"HTTPS_PROXY": "socks5://out", "NO_PROXY": "*"}, "https://api.test", None),
    ({"ALL_PROXY": "socks5://out"}, "http://127.0.0.1:8000", None),
    ({"ALL_PROXY": "socks5://out"}, "http://localhost:11434/v1", None),
    ({"ALL_PROXY": "socks5://out"}, "http://[::1]:8000", None),
    ({}, "https://api.test", None),
]
REFUSED = [
    ({"HTTPS_PROXY": "socks5://out:1080"}, "HTTPS_PROXY names a socks5 proxy"),
    ({"https_proxy": "socks5h://me:secret@out:1080"}, "HTTPS_PROXY names a socks5h proxy"),
    ({"ALL_PROXY": "socks5://out:1080"}, "ALL_PROXY names a socks5 proxy"),
    ({"all_proxy": "socks4a://out:1080"}, "ALL_PROXY names a socks4a proxy"),
    ({"HTTPS_PROXY": "http://out:port"}, "HTTPS_PROXY is not the address of a proxy"),
    ({"HTTPS_PROXY": "http://"}, "HTTPS_PROXY is not the address of a proxy"),
    ({"HTTPS_PROXY": "http://[::1"}, "HTTPS_PROXY is not the address of a proxy"),
]


@pytest.mark.parametrize(("variables", "url", "expected"), HONOURED)
def test_which_proxy(variables: dict[str, str], url: str, expected: str | None, environment: SetEnvironment) -> None:
    for name, value in variables.items():
        environment(name, value)
    assert proxy_for(url) == expected


@pytest.mark.parametrize(("variables", "says"), REFUSED)
async def test_a_proxy_that_cannot_be_used_is_refused_at_the_start(
    variables: dict[str, str], says: str, environment: SetEnvironment
) -> None:
    """For providers and for drafts alike; the message says what to do, and holds no password."""
    for name, value in variables.items():
        environment(name, value)
    with pytest.raises(ConfigError, match=says) as for_a_provider:
        async with proxy("https://api.test"):
            pass
    with pytest.raises(ConfigError, match=says) as for_a_draft:
        Focus("openai:m@https://api.test/v1")
    for error in (for_a_provider, for_a_draft):
        assert "add api.test to NO_PROXY" in str(error.value)
        assert "secret" not in str(error.value)


def test_the_command_says_so_in_one_line(environment: SetEnvironment, tmp_path: Path) -> None:
    environment("ALL_PROXY", "socks5h://me:secret@127.0.0.1:1080")
    environment("XDG_DATA_HOME", str(tmp_path))
    command = [sys.executable, "-m", "focusctx", "serve", "--upstream", "openai", "--draft", "offline", "--listen", "0"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 2
    assert "ALL_PROXY names a socks5h proxy" in ended.stderr
    assert "secret" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("has_scheme", [True, False])
async def test_providers_and_drafts_go_through_it(variable: str, has_scheme: bool, environment: SetEnvironment) -> None:
    async with raw_upstream() as way_out:
        environment(variable, way_out.url if has_scheme else way_out.url.removeprefix("http://"))
        async with proxy("http://provider.invalid") as (_, url):
            assert (await exchange(url, "POST", "/v1/embeddings", [], b"{}")).status == 200
        await Focus("openai:m@http://draft.invalid/v1", budget=1).acompress(_LONG)
    assert [got.target for got in way_out.got[:2]] == [
        "http://provider.invalid/v1/embeddings",
        "http://draft.invalid/v1/chat/completions",
    ]


_LONG = [
    {"role": "user", "content": "Do the task."},
    *({"role": role, "content": f"{role} {number}"} for number in range(20) for role in ("assistant", "user")),
]


@pytest.mark.parametrize("status", ["204 No Content", "407 Who are you", "502 Bad Gateway", "200"])
async def test_a_proxy_that_opens_no_tunnel(status: str, environment: SetEnvironment, tmp_path: Path) -> None:
    """The request stays here: it holds the caller's key, and there is no TLS yet."""
    seen: list[bytes] = []

    async def refuse(line: Line, head: Head) -> bool:
        assert head.first == "CONNECT api.test:443 HTTP/1.1"
        await line.send(f"HTTP/1.1 {status}\r\n\r\n".encode())
        seen.append(await line.reader.read(1000))
        await line.send(OK)
        return True

    shown, _ = certificate_for("DNS:api.test", tmp_path)
    environment("SSL_CERT_FILE", str(shown))
    async with raw_upstream(refuse) as way_out:
        environment("HTTPS_PROXY", way_out.url)
        async with proxy("https://api.test") as (_, url):
            key = [("Authorization", "Bearer sk-secret")]
            got = await asyncio.wait_for(exchange(url, "POST", "/v1/embeddings", key, b"{}"), 10)
    assert got.status == 502
    assert b"sk-secret" not in b"".join(seen)
