"""`focusctx serve` as its user runs it: a process, and its messages."""

import asyncio
import json
import re
import signal
import socket
import sqlite3
from pathlib import Path

import pytest

from helpers.certificates import certificate_for
from helpers.histories import run
from helpers.raw_http import STREAM, Head, Line, exchange, raw_upstream
from helpers.served import CHAT, history, serve

pytestmark = pytest.mark.usefixtures("bounded")

TOKEN = "a token of more than 16 characters"


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
        assert re.search(r": dry run, would be: \d+ → \d+ tokens, over budget \(compressed\)$", events[0])
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
only_if_it_pays = true
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
whole_steps = false
deadline = 5
"""


async def test_a_file_with_everything_in_it(tmp_path: Path, nothing_left: None) -> None:
    file = tmp_path / "focusctx.toml"
    async with raw_upstream() as up:
        file.write_text(CONFIG.format(url=up.url))
        keys = {"MY_TOKEN": TOKEN, "TWO_KEY": "sk-two"}
        async with serve(tmp_path, "--config", str(file), **keys) as served:
            assert served.said[0].endswith(" for one, two")
            assert "only if it pays" in served.said[3]
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
            assert "the budget is kept" in served.said[3]
            assert "unchanged" in served.said[4]


async def test_it_starts_without_its_store_and_says_so(tmp_path: Path, nothing_left: None) -> None:
    store = "redis://user:secret-word@127.0.0.1:1/0"
    async with raw_upstream() as up:
        options = ["--listen", "127.0.0.1:0", "--upstream", f"one={up.url}", "--store", store, "--budget", "60"]
        async with serve(tmp_path, *options) as served:
            assert (await exchange(served.url, "POST", CHAT, [], history(40))).status == 200
            assert await served.end() == 0
            said = "\n".join(served.said)
            assert "store redis://***@127.0.0.1:1/0" in said
            assert "until the store answers" in said
            assert "secret-word" not in said
            assert "Traceback" not in said
    assert up.got[0].body == history(40)


async def test_a_provider_over_tls(tmp_path: Path, nothing_left: None) -> None:
    """As strict as agents are: an unknown certificate is refused, one that the environment vouches for is not."""
    shown, context = certificate_for("IP:127.0.0.1", tmp_path)

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
