"""`focusctx serve` told to end: streams are finished first, and nobody has to wait for them."""

import asyncio
import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from helpers.histories import run
from helpers.raw_http import STREAM, Head, Line, connect, raw_upstream, request
from helpers.served import CHAT, history, serve

pytestmark = pytest.mark.usefixtures("bounded")


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
