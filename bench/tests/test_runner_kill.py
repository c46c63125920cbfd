"""Killed at any moment, the run goes on: the same records as in one go, and none of them written twice."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from focusctx_bench.engines.local import LocalEngine
from focusctx_bench.folder import RunFolder
from focusctx_bench.runner import Runner
from focusctx_bench.workshop import Workshop
from jobs import METHODS, office, records_of


def command(folder: Path, tasks: int) -> list[str]:
    return [
        sys.executable, "-m", "focusctx", "bench", "run", "--benchmark", "office", "--methods", *METHODS,
        "--tasks", str(tasks), "--out", str(folder),
    ]  # fmt: skip


def written(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every record there is, by who and when: a file that is written again has another number."""
    found = {}
    for path in (folder / "records").rglob("*.json"):
        status = path.stat()
        found[path] = status.st_ino, status.st_mtime_ns
    return found


def kill_and_resume(folder: Path, *, tasks: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    units = tasks * len(METHODS)
    before: dict[Path, tuple[int, int]] = {}
    for _ in range(kills):
        process = subprocess.Popen(command(folder, tasks), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        goal = min(units - 1, len(before) + chance.randint(0, 2 * units // kills))
        while process.poll() is None and len(written(folder)) <= goal:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.2)
        process.kill()
        _, said = process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0), said.decode()
        now = written(folder)
        assert before.items() <= now.items()
        before = now
    assert len(before) > 0
    finished = subprocess.run(command(folder, tasks), capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    assert before.items() <= written(folder).items()
    assert len(written(folder)) == units
    assert not list(folder.rglob("*.tmp"))
    workshop = Workshop(office(tasks))
    unbroken = RunFolder(folder.with_name("unbroken"))
    asyncio.run(Runner(workshop.job, workshop.tasks(), unbroken, LocalEngine(workshop)).run())
    assert records_of(folder) == records_of(unbroken.path)


def test_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(tmp_path / "killed", tasks=4, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_many_times_and_resumed(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path / "killed", tasks=30, kills=15, seed=seed)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(tmp_path: Path, sent: signal.Signals) -> None:
    process = subprocess.Popen(command(tmp_path, 60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(written(tmp_path)) < 3:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sent)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "stopped: interrupted" in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.tmp"))
    assert 3 <= len(written(tmp_path)) < 240


_MEMORY = """
import asyncio, gc, re, sys
from pathlib import Path
from focusctx_bench.engines.local import LocalEngine
from focusctx_bench.folder import RunFolder
from focusctx_bench.job import Job
from focusctx_bench.runner import Runner
from focusctx_bench.seams import Options
from focusctx_bench.workshop import Workshop

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

def watch(tally):
    done = sum(tally.done.values())
    if done % 100 == 0:
        gc.collect()
        print(done, resident(), len(gc.get_objects()), flush=True)

job = Job(benchmarks={"office": Options(more={"tasks": "1000"})}, methods=("none",))
workshop = Workshop(job)
runner = Runner(job, workshop.tasks(), RunFolder(Path(sys.argv[1])), LocalEngine(workshop), watch=watch)
tally = asyncio.run(runner.run())
assert tally.left == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_thousand_tasks_hold_memory_flat(tmp_path: Path) -> None:
    """Without a method: drafts have caches of their own, which grow to a limit."""
    said = subprocess.run([sys.executable, "-c", _MEMORY, str(tmp_path)], capture_output=True, text=True, check=True)
    seen = {row[0]: row[1:] for row in (list(map(int, line.split())) for line in said.stdout.splitlines())}
    assert len(written(tmp_path)) == 1000
    megabytes, objects = zip(*(seen[done] for done in range(600, 1001, 100)), strict=True)
    assert max(megabytes) < seen[500][0] + 10, seen
    assert max(objects) < 1.05 * seen[200][1], seen
