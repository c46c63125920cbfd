"""The proxy over TLS: with real sockets, and what it says of certificates that cannot be used."""

import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from focusctx import Focus
from focusctx.errors import ConfigError
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from helpers.certificates import certificate_for
from helpers.histories import run
from helpers.raw_http import STREAM, Head, Line, proxy, raw_upstream
from helpers.served import CHAT, environment, history

pytestmark = pytest.mark.usefixtures("bounded")


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


async def test_callers_reach_it_over_tls(tmp_path: Path, nothing_left: None) -> None:
    shown, _ = certificate_for("IP:127.0.0.1", tmp_path)
    key = str(tmp_path / "key.pem")

    async def answer(line: Line, head: Head) -> None:
        bodies.append(await line.body(head))
        await line.send(STREAM)
        for number in range(3):
            await line.chunk(b"data: %d\n\n" % number)
            await asyncio.sleep(0.01)
        await line.send(b"0\r\n\r\n")

    bodies: list[bytes] = []
    focus = Focus("offline", budget=60)
    async with (
        raw_upstream(answer) as up,
        proxy(up.url, focus=focus, tls_cert=str(shown), tls_key=key) as (_, url),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(shown))) as http,
    ):
        assert url.startswith("https://127.0.0.1:")
        async with http.post(f"{url}{CHAT}", data=history(40)) as got:
            assert got.status == 200
            assert got.headers["x-focusctx-event"] == "compressed"
            assert await got.read() == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
        async with http.get(f"{url}/ui/api/sessions") as got:
            assert len((await got.json())["sessions"]) == 1
        async with aiohttp.ClientSession() as strange:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await strange.get(f"{url}/healthz")
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"{url.replace('https', 'http')}/healthz")
    assert len(json.loads(bodies[0])["messages"]) < len(run(40))


async def test_one_file_may_hold_certificate_and_key(tmp_path: Path, nothing_left: None) -> None:
    shown, _ = certificate_for("IP:127.0.0.1", tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(shown.read_text() + (tmp_path / "key.pem").read_text())
    async with (
        raw_upstream() as up,
        proxy(up.url, tls_cert=str(both)) as (_, url),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(shown))) as http,
        http.get(f"{url}/healthz") as got,
    ):
        assert got.status == 200


async def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    shown, _ = certificate_for("IP:127.0.0.1", tmp_path)
    key = tmp_path / "key.pem"
    (tmp_path / "other").mkdir()
    certificate_for("IP:127.0.0.1", tmp_path / "other")
    (tmp_path / "text").write_text("hello")
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", str(key), "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    cases = [
        (tmp_path / "none.pem", key, "cannot be read: .*: No such file"),
        (shown, tmp_path / "none.pem", "cannot be read: .*none.pem: No such file"),
        (tmp_path / "text", key, "must be in PEM format"),
        (shown, tmp_path / "other" / "key.pem", "do not belong together"),
        (shown, locked, "is encrypted"),
    ]
    upstreams = (Upstream("one", "http://127.0.0.1:1"),)
    for certificate, its_key, said in cases:
        settings = Settings(upstreams, port=0, store="memory", tls_cert=str(certificate), tls_key=str(its_key))
        with pytest.raises(ConfigError, match=said):
            async with serving(Focus("offline"), settings):
                pass
    with pytest.raises(ConfigError, match="add --tls-cert"):
        Settings(upstreams, tls_key=str(key))


async def test_the_command_says_its_address_and_what_is_wrong(tmp_path: Path) -> None:
    command = ["focusctx", "serve", "--upstream", "openai", "--listen", "0", "--tls-cert", str(tmp_path / "none.pem")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stderr=subprocess.PIPE, env=environment(tmp_path)
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().startswith("focusctx: the certificate or its key cannot be read: ")
    assert said.count(b"\n") == 1
