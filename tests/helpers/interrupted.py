"""A server that keeps a command waiting, and Ctrl-C for that command."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from replay.logs import long_run, write

ANSWERED = 3
"""Requests that the server answers, after the one question before the start; it leaves the others waiting."""

PLAN = "Step: read on | Depends on: [s_1]\nRescued Spans: [] | Reason: none"


class Busy(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Server)
        with self.server.lock:
            self.server.asked += 1
            answered = self.server.asked <= 1 + ANSWERED
        if not answered:
            self.server.over.wait()
            return
        choice = {"message": {"content": PLAN}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice] * 3, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Busy)
        self.lock, self.over, self.asked = threading.Lock(), threading.Event(), 0


@pytest.fixture
def busy() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.jsonl", *(long_run(150, f"run {number}") for number in range(40)))


def interrupted(arguments: list[str], when: Callable[[], bool], *, group: bool) -> None:
    """Send a command SIGINT, alone or, as a terminal does, with all its children, and look at how it ends."""
    command = [sys.executable, "-m", "focusctx", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        patience = time.monotonic() + 60
        while not when():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < patience
            time.sleep(0.02)
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        began = time.monotonic()
        out, said = process.communicate(timeout=30)  # its pipes are closed once its children are gone too
        assert time.monotonic() - began < 5
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert out == ""
    assert said.endswith("stopped: interrupted; run the same command again to continue\n"), said
    assert "Traceback" not in said
    while left := living(process.pid):  # one that is just about to end may be among them
        assert time.monotonic() - began < 10, left
        time.sleep(0.05)


def living(group: int) -> list[str]:
    """The processes of the group, but for those that are over and that nobody has asked about yet."""
    found = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(None, 2) for line in found.splitlines())
    return [row[2] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


def has_lines(path: Path, count: int) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") >= count
