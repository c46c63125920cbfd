"""Killed at any moment, the run goes on: the same records as in one go, and none of them written twice."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench_helpers.made_jobs import METHODS, office, records_of
from focusctx.jobs.engines import InProcess
from focusctx_bench.job import BenchFolder
from focusctx_bench.run import Components, run_bench


def command(folder: Path, tasks: int) -> list[str]:
    return [
        sys.executable, "-m", "focusctx", "bench", "run", "--benchmark", "office", "--methods", *METHODS,
        "--tasks", str(tasks), "--out", str(folder),
    ]  # fmt: skip


def written(folder: Path) -> bytes:
    """All records there are, without half a line at the end."""
    path = folder / "records.jsonl"
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1]


def count(folder: Path) -> int:
    return written(folder).count(b"\n")


def kill_and_resume(folder: Path, *, tasks: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    units = tasks * len(METHODS)
    before = b""
    for _ in range(kills):
        process = subprocess.Popen(command(folder, tasks), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        goal = min(units - 1, before.count(b"\n") + chance.randint(0, 2 * units // kills))
        while process.poll() is None and count(folder) <= goal:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.2)
        process.kill()
        _, said = process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0), said.decode()
        now = written(folder)
        assert now.startswith(before), "no record is written again"
        before = now
    assert len(before) > 0
    finished = subprocess.run(command(folder, tasks), capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    assert written(folder).startswith(before)
    assert count(folder) == units == len(records_of(folder))
    assert not list(folder.rglob("*.tmp"))
    job, unbroken = office(tasks), BenchFolder(folder.with_name("unbroken"))
    asyncio.run(run_bench(job, Components(job).tasks(), unbroken, InProcess()))
    assert records_of(folder) == records_of(unbroken.path)


def test_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(tmp_path / "killed", tasks=2, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_many_times_and_resumed(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path / "killed", tasks=30, kills=15, seed=seed)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(tmp_path: Path, sent: signal.Signals) -> None:
    process = subprocess.Popen(command(tmp_path, 60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while count(tmp_path) < 3:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sent)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "stopped: interrupted" in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.tmp"))
    assert 3 <= count(tmp_path) < 240


_MEMORY = """
import asyncio, gc, re, sys
from pathlib import Path
from focusctx.jobs.engines import InProcess
from focusctx_bench.run import Components
from focusctx_bench.job import BenchFolder
from focusctx_bench.job import Job
from focusctx_bench.protocols import Options
from focusctx_bench.run import run_bench

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

def watch(tally):
    done = sum(tally.done.values())
    if done % 100 == 0:
        gc.collect()
        print(done, resident(), len(gc.get_objects()), flush=True)

job = Job(benchmarks={"office": Options(more={"tasks": "1000"})}, methods=("none",))
folder = BenchFolder(Path(sys.argv[1]))
tally = asyncio.run(run_bench(job, Components(job).tasks(), folder, InProcess(), watch=watch))
assert tally.left == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_thousand_tasks_hold_memory_flat(tmp_path: Path) -> None:
    """Without a method: drafts have caches of their own, which grow to a limit."""
    said = subprocess.run([sys.executable, "-c", _MEMORY, str(tmp_path)], capture_output=True, text=True, check=True)
    seen = {row[0]: row[1:] for row in (list(map(int, line.split())) for line in said.stdout.splitlines())}
    assert count(tmp_path) == 1000
    megabytes, objects = zip(*(seen[done] for done in range(600, 1001, 100)), strict=True)
    assert max(megabytes) < seen[500][0] + 10, seen
    assert max(objects) < 1.05 * seen[200][1], seen
