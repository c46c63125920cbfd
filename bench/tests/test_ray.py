"""The Ray engine on a real Ray, with several workers, one of them killed while it works."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench_helpers.made_jobs import METHODS, office, records_of
from focusctx.jobs.engines import InProcess
from focusctx_bench.job import BenchFolder
from focusctx_bench.run import Components, run_bench

pytestmark = [
    pytest.mark.slow,
    pytest.mark.extra,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs focusctx-bench[ray]"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="workers are found in /proc"),
]
TASKS = 9


def command(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "focusctx", "bench", "run", "--benchmark", "office", "--methods", *METHODS,
        "--tasks", str(TASKS), "--engine", "ray", "--concurrency", "3", "--out", str(folder),
    ]  # fmt: skip


def start(folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    environment = {**os.environ, "RAY_ADDRESS": "local"}  # a Ray of its own, whatever else runs here
    return subprocess.Popen(command(folder), stdout=pipe, stderr=pipe, text=True, env=environment)


def at_work(driver: int) -> set[int]:
    """Worker processes below the driver that are in the middle of a task: Ray names a process after what it does."""
    parents: dict[int, int] = {}
    busy: set[int] = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status, title = (path / "status").read_text(), (path / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        number = int(path.name)
        parents[number] = int(re.search(r"PPid:\s+(\d+)", status)[1])  # type: ignore[index]
        if title.startswith(b"ray::attempt_elsewhere"):
            busy.add(number)
    return {number for number in busy if _is_below(number, driver, parents)}


def _is_below(number: int, driver: int, parents: dict[int, int]) -> bool:
    while number in parents and number != driver:
        number = parents[number]
    return number == driver


def wait_for_worker(process: subprocess.Popen[str]) -> int:
    while process.poll() is None:
        if busy := at_work(process.pid):
            return min(busy)
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    process = start(tmp_path / "ray")
    workers = set()
    for _ in range(2):
        workers.add(worker := wait_for_worker(process))
        os.kill(worker, signal.SIGKILL)
        time.sleep(1)
    while process.poll() is None:
        workers |= at_work(process.pid)
        time.sleep(0.1)
    out, said = process.communicate()
    assert process.returncode == 0, said
    assert "FOCUS-D" in out
    assert len(workers) >= 3
    ended = [attempt.ended for attempt in BenchFolder(tmp_path / "ray").attempts]
    assert 1 <= ended.count("failed") <= 2  # a worker may have finished the moment it was killed
    assert len(ended) - ended.count("failed") == TASKS * len(METHODS)
    job = office(TASKS)
    asyncio.run(run_bench(job, Components(job).tasks(), BenchFolder(tmp_path / "local"), InProcess()))
    assert records_of(tmp_path / "ray") == records_of(tmp_path / "local")


def test_stopped_and_resumed(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for_worker(process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    first = set(records_of(tmp_path))
    process = start(tmp_path)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert len(set(records_of(tmp_path)) - first) == TASKS * len(METHODS) - len(first)
