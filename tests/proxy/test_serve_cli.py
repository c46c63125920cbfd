"""`focusctx serve` as its user runs it: a process, its messages, and signals."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from histories import run
from raw_http import STREAM, Head, Line, connect, exchange, raw_upstream, request

pytestmark = pytest.mark.usefixtures("bounded")

CHAT = "/v1/chat/completions"
TOKEN = "a token of more than 16 characters"
_NOT_OURS = ("FOCUSCTX", "OPENAI", "ANTHROPIC", "OTEL")
_PROGRAM = [sys.executable, "-m", "focusctx", "serve"]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
    return {**kept, "XDG_DATA_HOME": str(home), "HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


@dataclass
class Served:
    process: asyncio.subprocess.Process
    url: str
    said: list[str]
    """Lines on standard error, so far."""

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 10)


@contextlib.asynccontextmanager
async def serve(home: Path, *options: str, **more: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        *_PROGRAM, *options, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(home, **more)
    )
    assert process.stderr is not None
    served = Served(process, "", [])

    async def listen() -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            served.said.append(line.decode().rstrip())

    listener = asyncio.create_task(listen())
    try:
        while not served.url:
            await asyncio.sleep(0.01)
            assert process.returncode is None, served.said
            found = re.search(r"listens on (\S+) .*, store ", "\n".join(served.said), re.DOTALL)
            served.url = found[1] if found else ""
        yield served
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listener
        assert process.stdout is not None
        assert await process.stdout.read() == b"", "standard output is not for messages"


def history(steps: int = 12) -> bytes:
    return json.dumps({"model": "m", "messages": run(steps)}).encode()


async def test_what_it_says_and_does(tmp_path: Path, nothing_left: None) -> None:
    async with (
        raw_upstream() as up,
        serve(tmp_path, "--upstream", f"mine={up.url}/v1", "--listen", "127.0.0.1:0", "--budget", "60") as served,
    ):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", served.url)
        assert served.said[:1] == [f"focusctx listens on {served.url} for mine"]
        assert f"OPENAI_BASE_URL={served.url}/v1" in served.said[1]
        assert f"ANTHROPIC_BASE_URL={served.url}" in served.said[1]
        assert f"{served.url}/ui" in served.said[1]
        assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
        assert await served.end() == 0
        assert "draft offline" in served.said[2]
        assert "60 tokens" in served.said[2]
        assert f"sqlite:///{tmp_path}/focusctx/proxy.db" in served.said[2]
        assert [line for line in served.said[3:] if "tokens" in line], "the event is in the log"
        assert "result 3" not in "\n".join(served.said)
    assert len(json.loads(up.got[0].body)["messages"]) < len(run(40))
    with sqlite3.connect(tmp_path / "focusctx" / "proxy.db") as store:
        assert store.execute("SELECT count(*) FROM events").fetchone()[0] == 1
    store.close()


async def test_agents_are_told_of_what_their_keys_are_for(tmp_path: Path, nothing_left: None) -> None:
    """An Anthropic key is no business of OpenAI's: nobody is told to send it, and it does not get there."""
    async with serve(tmp_path, "--upstream", "openai", "--listen", "127.0.0.1:0", "--store", "memory") as served:
        assert "OPENAI_BASE_URL=" in served.said[1]
        assert "ANTHROPIC_BASE_URL" not in "\n".join(served.said)
        refused = await exchange(served.url, "POST", "/v1/messages", [("x-api-key", "sk-ant-secret")], history(2))
        assert refused.status == 404
        assert b"no upstream for Anthropic requests: add --upstream anthropic" in refused.body
        assert refused["x-focusctx-error"] == "1"
        assert await served.end() == 0
        assert "sk-ant-secret" not in "\n".join(served.said)


async def test_others_are_told_an_address_they_can_reach(tmp_path: Path, nothing_left: None) -> None:
    options = ["--upstream", "openai", "--listen", "0.0.0.0:0", "--store", "memory"]
    async with serve(tmp_path, *options, FOCUSCTX_TOKEN=TOKEN) as served:
        assert re.fullmatch(r"http://0\.0\.0\.0:\d+", served.url), "where it listens"
        port = served.url.rpartition(":")[2]
        assert served.said[1].split()[0] == f"OPENAI_BASE_URL=http://{socket.gethostname().lower()}:{port}/v1"
        assert "0.0.0.0" not in served.said[1]
        assert await served.end() == 0


async def test_a_draft_that_is_gone_is_said_once(tmp_path: Path, nothing_left: None) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    options = ["--listen", "127.0.0.1:0", "--store", "memory", "--budget", "60", "--draft", f"openai:m@{gone}"]
    async with (
        raw_upstream() as up,
        serve(tmp_path, "--upstream", f"one={up.url}", *options, OPENAI_API_KEY="sk-draft-secret") as served,
    ):
        assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
        assert await served.end() == 0
        (said,) = [line for line in served.said[3:] if "usable" in line]
        assert "no answer from 127.0.0.1" in said
        assert "ssl" not in said


async def test_a_dry_run_claims_nothing(tmp_path: Path, nothing_left: None) -> None:
    options = ["--listen", "127.0.0.1:0", "--budget", "60", "--dry-run", "--log-text"]
    async with raw_upstream() as up, serve(tmp_path, "--upstream", f"one={up.url}", *options) as served:
        assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
        assert await served.end() == 0
        events = [line for line in served.said[4:] if "tokens" in line]
        assert len(events) == 1
        assert re.search(r": dry run, would be: \d+ → \d+ tokens \(compressed\)$", events[0])
        dropped = [line for line in served.said if "dropped s_" in line]
        assert dropped
        assert all("would be: dropped" in line for line in dropped)
    assert up.got[0].body == history(40)


CONFIG = """
listen = "127.0.0.1:0"
token = "env:MY_TOKEN"
store = "memory"
recall = false
dry_run = false
body_limit = 100_000
money_gate = false
log_text = true
refuse_websockets = true
otel = false
grace = 3.5

[upstreams.one]
url = "{url}"

[upstreams.two]
url = "{url}/two/v1"
key = "env:TWO_KEY"

[compress]
draft = "offline"
budget = 60
rollouts = 3
threshold = 0.3
optimistic = false
dropped = "remove"
deadline = 5
"""


async def test_a_file_with_everything_in_it(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up:
        file.write_text(CONFIG.format(url=up.url))
        keys = {"MY_TOKEN": TOKEN, "TWO_KEY": "sk-two"}
        async with serve(tmp_path, "--config", str(file), **keys) as served:
            assert served.said[0].endswith(" for one, two")
            assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 403
            shown = [("x-focusctx-token", TOKEN)]
            assert (await exchange(served.url, "POST", CHAT, shown, history(40))).status == 200
            assert (await exchange(served.url, "POST", f"/two{CHAT}", shown, history(40))).status == 200
            assert await served.end(signal.SIGINT) == 0
            assert "dropped s_" in "\n".join(served.said), "log_text"
            assert TOKEN not in "\n".join(served.said)
            assert "sk-two" not in "\n".join(served.said)
    assert [got.target for got in up.got] == [CHAT, f"/two{CHAT}"]
    assert up.got[1]["authorization"] == "Bearer sk-two"
    assert len(json.loads(up.got[0].body)["messages"]) < len(run(40))


async def test_options_override_the_file(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up:
        file.write_text('listen = "127.0.0.1:1"\n[upstreams.one]\nurl = "http://127.0.0.1:1"\n[compress]\nbudget = 1\n')
        options = ["--listen", "127.0.0.1:0", "--upstream", f"two={up.url}", "--budget", "5000", "--dry-run"]
        async with serve(tmp_path, "--config", str(file), *options) as served:
            assert served.said[0].endswith(" for two")
            assert (await exchange(served.url)).status == 200
            assert await served.end() == 0
            assert "budget 5,000" in served.said[2]
            assert "store memory" in served.said[2]
            assert "unchanged" in served.said[3]


async def test_it_starts_without_its_store_and_says_so(tmp_path: Path, nothing_left: None) -> None:
    store = "redis://user:secret-word@127.0.0.1:1/0"
    async with raw_upstream() as up:
        options = ["--listen", "127.0.0.1:0", "--upstream", f"one={up.url}", "--store", store, "--budget", "60"]
        async with serve(tmp_path, *options) as served:
            assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
            assert await served.end() == 0
            said = "\n".join(served.said)
            assert "store redis://***@127.0.0.1:1/0" in said
            assert "until there is a store" in said
            assert "secret-word" not in said
            assert "Traceback" not in said
    assert up.got[0].body == history(40)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this machine that nobody has signed, and a server that shows it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH")
    shown, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    where = ["-keyout", str(key), "-out", str(shown)]
    subprocess.run(["openssl", "req", *made, *names, *where], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown, key)
    return shown, context


async def test_a_provider_over_tls(
    tmp_path: Path, certificate: tuple[Path, ssl.SSLContext], nothing_left: None
) -> None:
    """As strict as agents are: an unknown certificate is refused, one that the environment vouches for is not."""
    shown, context = certificate

    async def answer(line: Line, head: Head) -> None:
        await line.body(head)
        await line.send(STREAM)
        for number in range(5):
            await line.chunk(b"data: %d\n\n" % number)
            await asyncio.sleep(0.01)
        await line.send(b"0\r\n\r\n")

    async with raw_upstream(answer, tls=context) as up:
        options = ["--upstream", f"one={up.url}", "--listen", "127.0.0.1:0", "--store", "memory"]
        async with serve(tmp_path, *options) as served:
            refused = await exchange(served.url, "POST", CHAT, [], history(2))
            assert refused.status == 502
            assert "self-signed certificate" in refused.body.decode()
            assert await served.end() == 0
        async with serve(tmp_path, *options, SSL_CERT_FILE=str(shown)) as served:
            for _ in range(3):
                got = await exchange(served.url, "POST", CHAT, [], history(2))
                assert got.body == b"".join(b"data: %d\n\n" % number for number in range(5))
            assert up.connections == 1
            assert await served.end() == 0


WRONG: list[tuple[list[str], str]] = [
    ([], "say where requests go: --upstream openai"),
    (["--upstream", "nobody"], "'nobody' names no upstream"),
    (["--upstream", "mine=ftp://x"], "no http(s) address"),
    (["--upstream", "openai", "--upstream", "openai"], "same name"),
    (["--upstream", "openai", "--listen", "x:y"], "HOST:PORT"),
    (["--upstream", "openai", "--listen", "127.0.0.1:99999"], "99999 is no port"),
    (
        ["--upstream", "openai", "--draft", "openai:m@http://localhost:8433/v1", "--listen", "8433"],
        "would ask this proxy",
    ),
    (["--upstream", "mine=http://127.0.0.1:8433", "--listen", "127.0.0.1:8433"], "mine is this proxy itself"),
    (["--upstream", "openai", "--listen", "0.0.0.0:0"], "set an access token first (FOCUSCTX_TOKEN)"),
    (["--upstream", "openai", "--listen", "127.0.0.1:BUSY"], "choose another address with --listen"),
    (["--upstream", "openai", "--store", "mysql://x"], "names no store"),
    (["--upstream", "openai", "--store", "sqlite:////not/there/focus.db"], "does not exist: /not/there"),
    (["--upstream", "openai", "--store", "sqlite:///OTHER"], "database of another program"),
    (["--upstream", "openai", "--store", "redis://x:port"], "Redis URL is wrong"),
    (["--upstream", "openai", "--draft", "nobody:x"], "--help` lists the drafts"),
    (["--upstream", "openai", "--budget", "many"], "--budget: invalid int value"),
    (["--upstream", "openai", "--budget", "-5"], "budget must be 0 or more"),
    (["--upstream", "openai", "--threshold", "2"], "threshold must be"),
    (["--upstream", "openai", "--rollouts", "0"], "rollouts must be"),
    (["--upstream", "openai", "--body-limit", "-1"], "body_limit"),
    (["--upstream", "openai", "--dropped", "maybe"], "invalid choice"),
    (["--upstream", "openai", "--nonsense"], "unrecognized arguments"),
    (["--upstream", "openai", "--config", "/not/there.toml"], "/not/there.toml: No such file"),
    (["--upstream", "openai", "--config", "WRONG"], "[compress] budget must be a whole number, not 'many'"),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_is_wrong_is_said_in_one_line(options: list[str], says: str, tmp_path: Path) -> None:
    from focusctx.cli import main

    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[compress]\nbudget = "many"\n')
    with socket.create_server(("127.0.0.1", 0)) as busy:
        told = {"BUSY": str(busy.getsockname()[1]), "OTHER": str(tmp_path / "other.db"), "WRONG": str(wrong)}
        chosen = [re.sub("|".join(told), lambda match: told[match[0]], option) for option in options]
        if "--listen" not in chosen:
            chosen += ["--listen", "127.0.0.1:0"]
        code, said = _run_here(main, chosen, tmp_path)
    assert code == 2
    assert says in said
    assert said.startswith("focusctx: ")
    assert said.count("\n") == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    ("draft", "variable"), [("openai:m", "OPENAI_BASE_URL"), ("anthropic:m", "ANTHROPIC_BASE_URL")]
)
def test_a_shell_for_agents_is_none_for_the_draft(
    draft: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started again where agents are told of it, the draft would be told of it, too."""
    from focusctx.cli import main

    monkeypatch.setenv(variable, "http://127.0.0.1:8433/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    options = ["--upstream", "openai", "--draft", draft, "--listen", "127.0.0.1:8433"]
    code, said = _run_here(main, options, tmp_path)
    assert code == 2
    assert f"{draft}@http://127.0.0.1:8433" in said
    assert f"unset {variable}" in said or f"and {variable}" in said


def _run_here(main: object, options: list[str], home: Path) -> tuple[int, str]:
    """In this process: to start another one for each takes too long."""
    import io
    import logging

    assert callable(main)
    said = io.StringIO()
    log = logging.getLogger("focusctx")
    before = (list(log.handlers), log.level, log.propagate)
    try:
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
            patch.setenv("XDG_DATA_HOME", str(home))
            patch.delenv("FOCUSCTX_TOKEN", raising=False)
            return main(["serve", *options]), said.getvalue()
    finally:
        log.handlers[:], log.level, log.propagate = before
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


async def _held(url: str, target: str) -> Line:
    line = await connect(url)
    await line.send(request("GET", target))
    await line.head()
    await line.read_chunk()
    return line


async def test_the_first_signal_lets_streams_finish_and_the_second_does_not(tmp_path: Path, nothing_left: None) -> None:
    go_on = asyncio.Event()

    async def answer(line: Line, head: Head) -> bool:
        await line.send(STREAM)
        await line.chunk(b"data: 1\n\n")
        await go_on.wait()
        await line.chunk(b"data: 2\n\n")
        await line.send(b"0\r\n\r\n")
        return False

    async with raw_upstream(answer) as up:
        options = ["--upstream", f"one={up.url}", "--listen", "127.0.0.1:0", "--store", "memory"]
        async with serve(tmp_path, *options) as served:
            line = await _held(served.url, "/stream")
            idle = await connect(served.url)
            served.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            assert served.process.returncode is None
            with pytest.raises(OSError, match="Connect call failed"):
                await connect(served.url)
            go_on.set()
            assert await line.read_chunk() == b"data: 2\n\n"
            assert await line.read_chunk() == b""
            assert await asyncio.wait_for(served.process.wait(), 5) == 0
            await line.close()
            await idle.close()
        go_on.clear()
        async with serve(tmp_path, *options) as served:
            line = await _held(served.url, "/stream")
            served.process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.2)
            started = time.monotonic()
            assert await served.end(signal.SIGINT) in (-signal.SIGINT, 130)
            assert time.monotonic() - started < 1
            assert not (await line.ended()).endswith(b"0\r\n\r\n")
            await line.close()


async def test_a_signal_during_an_event(tmp_path: Path, nothing_left: None) -> None:
    """The request it belongs to is still answered, then the process ends, and the store is whole."""
    hold = asyncio.Event()

    async def slow(line: Line, head: Head) -> None:
        await line.body(head)
        asked.set()
        await hold.wait()
        answer = json.dumps({"choices": [{"message": {"content": "Step: finish | Depends on: []"}}], "usage": {}})
        await line.send(f"HTTP/1.1 200 OK\r\ncontent-length: {len(answer)}\r\n\r\n{answer}".encode())

    asked = asyncio.Event()
    async with raw_upstream() as up, raw_upstream(slow) as draft:
        store = tmp_path / "focus.db"
        options = ["--upstream", f"one={up.url}", "--listen", "127.0.0.1:0", "--store", f"sqlite:///{store}"]
        options += ["--draft", f"openai:m@{draft.url}/v1", "--budget", "60", "--deadline", "5"]
        async with (
            serve(tmp_path, *options, OPENAI_API_KEY="sk-draft-secret") as served,
            await connect(served.url) as line,
        ):
            await line.send(request("POST", CHAT, [], history(40)))
            await asyncio.wait_for(asked.wait(), 5)
            served.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            hold.set()
            assert (await line.whole()).status == 200
            assert await asyncio.wait_for(served.process.wait(), 5) == 0
            assert "Traceback" not in "\n".join(served.said)
            assert "sk-draft-secret" not in "\n".join(served.said)
    assert len(json.loads(up.got[0].body)["messages"]) < len(run(40))
    with sqlite3.connect(store) as file:
        assert file.execute("SELECT count(*) FROM events").fetchone()[0] == 1
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()
