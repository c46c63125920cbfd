"""Walks as a job: the same records on every engine, each once, whatever is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import BenchError
from focusctx.jobs.tally import Tally
from focusctx.replay.folder import ReplayFolder
from focusctx.replay.job import Plan
from focusctx.replay.methods import ReplaySettings
from focusctx.replay.record import run_records
from focusctx.replay.walks import walk_all
from replay.logs import SHOPPING, long_run, run_of, write

RUNS = [long_run(14, "a"), long_run(20, "b"), run_of(SHOPPING, "c")]
SETTINGS = ReplaySettings(methods=("none", "masking-3", "focus-d"))
PLAN = Plan(SETTINGS, RUNS, {"log.jsonl": 300}, jobs=1)
COMPARED = ("fifo@focus-d", "retrieval@focus-d", "masking@focus-d")


def unwatched(tally: Tally) -> None:
    pass


def timeless(records: Sequence[Any]) -> list[Any]:
    return sorted((replace(record, seconds=0.0) for record in records), key=lambda record: record.key)


def test_every_method_and_its_comparators(tmp_path: Path) -> None:
    file = run_records(tmp_path)
    tally = walk_all(PLAN, file, unwatched)
    assert tally.done == {"log.jsonl": 3, "log.jsonl, matched": 3}
    assert not any(tally.failed.values())
    records = list(file)
    assert [record.method for record in records] == 3 * ["none", "masking-3", "focus-d"] + 3 * list(COMPARED)
    by_method = {record.method: record for record in records if record.run == "b"}
    assert by_method["none"].recall == by_method["none"].span_share == 1
    ours = by_method["focus-d"]
    assert ours.events
    assert ours.draft == by_method["fifo@focus-d"].draft == "offline"
    assert by_method["none"].draft == by_method["masking-3"].draft == ""
    sizes = [0, *(step.span_tokens for step in ours.steps)]
    largest = max(later - earlier for earlier, later in pairwise(sizes))
    for name in COMPARED:
        more = [step.span_left - own.span_left for step, own in zip(by_method[name].steps, ours.steps, strict=True)]
        assert min(more) >= -largest
        assert max(more) <= largest or name.startswith("masking")
    assert not any(record.words_lost for record in records)


def test_several_processes_find_the_same(tmp_path: Path) -> None:
    alone, several = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, alone, unwatched)
    walk_all(replace(PLAN, jobs=2), several, unwatched)
    assert timeless(list(alone)) == timeless(list(several))


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    records = run_records(tmp_path)
    walk_all(replace(PLAN, runs=RUNS[:1]), records, unwatched)
    first = records.path.read_text()
    tally = walk_all(PLAN, records, unwatched)
    assert tally.before == {"log.jsonl": 1, "log.jsonl, matched": 0}
    assert tally.done == {"log.jsonl": 2, "log.jsonl, matched": 2}
    assert records.path.read_text().startswith(first)
    more = replace(PLAN, settings=replace(SETTINGS, methods=("none", "fifo")))
    walk_all(more, records, unwatched)
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys)) == 3 * (2 + len(COMPARED) + 1 + 1)


def test_comparators_can_come_later(tmp_path: Path) -> None:
    at_once, later = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, at_once, unwatched)
    walk_all(replace(PLAN, settings=replace(SETTINGS, matched=False)), later, unwatched)
    assert not any("@" in record.method for record in later)
    tally = walk_all(PLAN, later, unwatched)
    assert tally.done == {"log.jsonl": 0, "log.jsonl, matched": 3}
    assert timeless(list(later)) == timeless(list(at_once))


def test_data_that_changed_is_refused(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "out")
    folder.begin(RUNS, ["replay", "run"])
    folder.begin(RUNS[:1], ["replay", "points"])
    folder.begin(RUNS, ["replay", "run"])
    assert (tmp_path / "out" / "replay.json").read_text().count('"replay"') == 2
    with pytest.raises(BenchError, match="run 'a' has changed"):
        folder.begin([long_run(15, "a")], ["replay", "run"])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_killed_replay_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle: its workers end by themselves, and the same command does the rest."""
    write(tmp_path / "log.jsonl", *(long_run(50, f"run {number}") for number in range(8)))
    command = [
        sys.executable, "-m", "focusctx", "replay", "run", str(tmp_path / "log.jsonl"), "--budget", "500",
        "--methods", "none", "focus-d", "--jobs", "2", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    records = run_records(tmp_path / "out")
    deadline = time.monotonic() + 60
    while not records.path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = _children(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while any(_is_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [worker for worker in workers if _is_alive(worker)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys))
    assert sum(record.method == "focus-d" for record in records) == 8


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(above) == parent and state != "Z":
            found.append(int(path.parent.name))
    return found


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.skipif(find_spec("ray") is None, reason="needs focusctx-bench[ray]")
def test_ray_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", "local")
    alone, cluster = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, alone, unwatched)
    walk_all(replace(PLAN, engine="ray"), cluster, unwatched)
    assert timeless(list(alone)) == timeless(list(cluster))
