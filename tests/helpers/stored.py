"""Records to put into stores, and a Redis server to put them on."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from focusctx.session.store import Archived, StoredEvent


def span(key: str, event: str = "e1", text: str = "looked around", **changes) -> Archived:
    result = {"role": "tool", "tool_call_id": key, "content": f"result of {key}"}
    messages = ({"role": "assistant", "content": text}, result)
    values = {
        "index": 7,
        "messages": messages,
        "tokens": 12,
        "utility": 0.25,
        "reason": "no plan cites it",
    }
    return Archived(key=key, event=event, **(values | changes))


def event(key: str = "e1", *dropped: str, tokens_after: int = 400, when: float = 1700000000.125) -> StoredEvent:
    return StoredEvent(key, index=9, tokens_before=5000, tokens_after=tokens_after, dropped=dropped, time=when)


def redis_binary() -> str | None:
    return shutil.which("redis-server")


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[str]:
    """A server on loopback that keeps nothing on disk; yields its URL."""
    for _ in range(5):  # another program may take the free port before the server does
        port = free_port()
        where = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
        nothing_kept = ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
        server = subprocess.Popen([redis_binary(), *where, *nothing_kept, *options], stdout=subprocess.DEVNULL)
        try:
            if answers(server, port):
                yield f"redis://127.0.0.1:{port}/0"
                return
        finally:
            server.kill()
            server.wait()
    raise RuntimeError("redis-server did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(server: subprocess.Popen, port: int) -> bool:
    deadline = time.monotonic() + 10
    with redis.Redis(host="127.0.0.1", port=port, retry=None) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                return client.info("server")["process_id"] == server.pid
            except redis.RedisError:
                time.sleep(0.02)
    return False
