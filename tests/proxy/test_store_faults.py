"""A store that is down, hangs, is full or locked: requests go up as they come, and nobody waits for it."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from focusctx.proxy.app import Proxy
from helpers.histories import run
from helpers.raw_http import Raw, eventually, exchange, proxy, raw_upstream
from helpers.stored import redis_binary, redis_server
from helpers.troubled import eager, history, post, sent

pytestmark = pytest.mark.usefixtures("nothing_left")


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """Takes every connection and never says a word on it."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()


async def _took(url: str, body: bytes) -> float:
    started = time.monotonic()
    assert await post(url, body) == 200
    return time.monotonic() - started


async def test_a_store_that_never_answers_costs_two_seconds_once() -> None:
    async with silent() as store, raw_upstream() as up, proxy(up.url, focus=eager(), store=store) as (_, url):
        first = await asyncio.gather(*(_took(url, history(12, str(number))) for number in range(40)))
        assert max(first) < 4, "for all who came before anybody knew"
        later = [await _took(url, history(12 + number)) for number in range(10)]
        assert max(later) < 1
        assert (await exchange(url, "GET", "/readyz")).status == 200
        started = time.monotonic()
    assert time.monotonic() - started < 3, "nor does it hold up the end"
    assert [len(sent(up, place)) for place in range(-10, 0)] == [len(run(12 + number)) for number in range(10)]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[str]:
    if redis_binary() is None:
        pytest.skip("no redis-server on PATH (scripts/redis installs it)")
    with redis_server(tmp_path) as url:
        yield url


def _pid(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])


async def _compresses(up: Raw, url: str, name: str) -> bool:
    assert await post(url, history(12, name)) == 200
    return len(sent(up)) < len(run(12))


def _quicker(served: Proxy) -> None:
    served.store._rest = 0.2  # not to wait for seconds until a store is looked at again


async def test_redis_stops_for_good_while_serving(own_redis: str) -> None:
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=own_redis) as (_, url):
        assert await _compresses(up, url, "before")
        before = sent(up)
        os.kill(_pid(own_redis), signal.SIGKILL)
        assert await post(url, history(13, "before")) == 200
        assert sent(up)[: len(before)] == before, "what was decided stays so"
        assert sent(up)[-2:] == run(13)[-2:]
        for number in range(5):
            assert await _took(url, history(12, f"after {number}")) < 1.0
            assert sent(up) == json.loads(history(12, f"after {number}"))["messages"]


async def test_redis_hangs_for_a_while(own_redis: str) -> None:
    """Stopped in the middle of everything: the kernel still takes connections for it."""
    pid = _pid(own_redis)
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=own_redis) as (served, url):
        _quicker(served)
        assert await _compresses(up, url, "before")
        os.kill(pid, signal.SIGSTOP)
        try:
            assert await _took(url, history(12, "during")) < 2.5
            assert await _took(url, history(13, "during")) < 1
            assert len(sent(up)) == len(run(13))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await eventually(lambda: served.store.trouble is None, 30)
        assert await _compresses(up, url, "after")


async def test_redis_comes_back(tmp_path: Path) -> None:
    if redis_binary() is None:
        pytest.skip("no redis-server on PATH (scripts/redis installs it)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=f"redis://127.0.0.1:{port}/0") as (served, url):
        _quicker(served)
        assert not await _compresses(up, url, "before")
        server = subprocess.Popen(
            [redis_binary() or "", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
            stdout=subprocess.DEVNULL,
        )
        try:
            assert await eventually(lambda: served.store.trouble is None, 30)
            assert await _compresses(up, url, "after")
        finally:
            server.kill()
            server.wait()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk(small_disk: Path) -> None:
    store = f"sqlite:///{small_disk / 'focus.db'}"
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=store) as (served, url):
        _quicker(served)
        assert await _compresses(up, url, "before")
        before = sent(up)
        filler = small_disk / "filler"
        _fill(filler)
        for number in range(4):
            assert await _took(url, history(12, f"full {number} {'x' * 3000}")) < 0.5
            assert len(sent(up)) == len(run(12)), "what cannot be kept is not dropped"
        assert await post(url, history(13, "before")) == 200
        assert sent(up)[: len(before)] == before
        filler.unlink()
        assert await eventually(lambda: served.store.trouble is None, 30)
        assert await _compresses(up, url, "after")
    with sqlite3.connect(small_disk / "focus.db") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            while True:
                try:
                    if not file.write(b"x" * size):
                        break
                except OSError:
                    break


async def test_a_file_that_another_program_writes_to_for_long(tmp_path: Path) -> None:
    path = tmp_path / "focus.db"
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=f"sqlite:///{path}") as (served, url):
        _quicker(served)
        assert await _compresses(up, url, "before")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert await _took(url, history(12, "during")) < 2.0
        assert await _took(url, history(13, "during")) < 1
        assert len(sent(up)) == len(run(13))
        other.execute("COMMIT")
        other.close()
        assert await eventually(lambda: served.store.trouble is None, 30)
        assert await _compresses(up, url, "after")


async def test_a_file_that_another_program_has_for_itself(tmp_path: Path) -> None:
    """Not even to open it can hold up anybody for long, nor those who have nothing to do with it."""
    path = tmp_path / "focus.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=f"sqlite:///{path}") as (served, url):
        _quicker(served)
        assert await _took(url, history(12, "during")) < 2.0
        assert await _took(url, history(13, "during")) < 1
        assert len(sent(up)) == len(run(13))
        other.close()
        assert await eventually(lambda: served.store.trouble is None, 30)
        assert await _compresses(up, url, "after")


async def test_a_file_that_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "focus.db"
    path.parent.mkdir()
    async with raw_upstream() as up, proxy(up.url, focus=eager(), store=f"sqlite:///{path}") as (_, url):
        assert await _compresses(up, url, "before")
        path.write_bytes(b"this is no database any more" * 1000)
        for number in range(3):
            assert await _took(url, history(12, f"after {number}")) < 1.0
