"""Replays on every engine: the same records, each once, whatever is killed on the way."""

import asyncio
import multiprocessing
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

from focusctx.errors import BenchError, ConfigError
from focusctx.replay.engines import Outcome, on_cores, side_by_side
from focusctx.replay.folder import ReplayFolder
from focusctx.replay.methods import Setup
from focusctx.replay.runner import Plan, point_all, walk_all
from focusctx.replay.sketches import Recorded
from focusctx.replay.tally import Tally
from focusctx.replay.work import Unit
from replay.logs import SHOPPING, long_run, run_of, write

RUNS = [long_run(14, "a"), long_run(20, "b"), run_of(SHOPPING, "c")]
SETUP = Setup(methods=("none", "masking-3", "focus-d"))
PLAN = Plan(SETUP, RUNS, {"log.jsonl": 300}, jobs=1)
COMPARED = ("fifo@focus-d", "retrieval@focus-d", "masking@focus-d")


def unwatched(tally: Tally) -> None:
    pass


def timeless(records: Sequence[Any]) -> list[Any]:
    return sorted((replace(record, seconds=0.0) for record in records), key=lambda record: record.key)


def test_every_method_and_its_comparators(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path)
    tally = walk_all(PLAN, folder.runs, unwatched)
    assert tally.done == {"log.jsonl": 3, "log.jsonl, matched": 3}
    assert not any(tally.failed.values())
    records = list(folder.runs)
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
    alone, several = ReplayFolder(tmp_path / "1"), ReplayFolder(tmp_path / "2")
    walk_all(PLAN, alone.runs, unwatched)
    walk_all(replace(PLAN, jobs=2), several.runs, unwatched)
    assert timeless(list(alone.runs)) == timeless(list(several.runs))


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path)
    walk_all(replace(PLAN, runs=RUNS[:1]), folder.runs, unwatched)
    first = folder.runs.path.read_text()
    tally = walk_all(PLAN, folder.runs, unwatched)
    assert tally.before == {"log.jsonl": 1, "log.jsonl, matched": 0}
    assert tally.done == {"log.jsonl": 2, "log.jsonl, matched": 2}
    assert folder.runs.path.read_text().startswith(first)
    more = replace(PLAN, setup=replace(SETUP, methods=("none", "fifo")))
    walk_all(more, folder.runs, unwatched)
    keys = [record.key for record in folder.runs]
    assert len(keys) == len(set(keys)) == 3 * (2 + len(COMPARED) + 1 + 1)


def test_comparators_can_come_later(tmp_path: Path) -> None:
    at_once, later = ReplayFolder(tmp_path / "1"), ReplayFolder(tmp_path / "2")
    walk_all(PLAN, at_once.runs, unwatched)
    walk_all(replace(PLAN, setup=replace(SETUP, matched=False)), later.runs, unwatched)
    assert not any("@" in record.method for record in later.runs)
    tally = walk_all(PLAN, later.runs, unwatched)
    assert tally.done == {"log.jsonl": 0, "log.jsonl, matched": 3}
    assert timeless(list(later.runs)) == timeless(list(at_once.runs))


def test_points_are_judged_once(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path)
    plan = replace(PLAN, setup=replace(SETUP, methods=("focus-d", "oracle")))
    point_all(plan, folder.points, unwatched)
    records = list(folder.points)
    point_all(plan, folder.points, unwatched)
    assert list(folder.points) == records
    oracle = [record for record in records if record.method == "oracle"]
    assert oracle
    assert all(record.there == record.needed for record in oracle)
    assert all(record.failure is None for record in records)


def test_recorded_sketches_are_played_at_their_points_only(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path)
    plan = "Step: go on | Depends on: [s_4]"
    recorded = Recorded(file="log.jsonl", id="b", messages=22, spans=10, budget=300, replies=(plan,) * 3)
    setup = Setup(methods=("focus-o",), draft=None, recorded="recorded", matched=False)
    point_all(replace(PLAN, setup=setup, recorded=[recorded]), folder.points, unwatched)
    (record,) = folder.points
    spans = RUNS[1].history(22).spans
    assert (record.run, record.messages, record.draft) == ("b", 22, "recorded")
    assert record.span_left == spans[3].tokens + spans[9].tokens
    nowhere = replace(recorded, messages=24, spans=11, replies=())
    setup = replace(setup, recorded="nobody")
    point_all(replace(PLAN, setup=setup, recorded=[nowhere]), folder.points, unwatched)
    failed = list(folder.points)[-1]
    assert failed.failure is not None
    assert failed.span_left == failed.span_tokens


def test_data_that_changed_is_refused(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "out")
    folder.open(RUNS, ["replay", "run"])
    folder.open(RUNS[:1], ["replay", "points"])
    folder.open(RUNS, ["replay", "run"])
    assert (tmp_path / "out" / "replay.json").read_text().count('"replay"') == 2
    with pytest.raises(BenchError, match="run 'a' has changed"):
        folder.open([long_run(15, "a")], ["replay", "run"])


async def _told(unit: Unit) -> list[str]:
    if unit.run.id == "b":
        raise ValueError("no good")
    return [unit.run.id]


async def _misled(unit: Unit) -> list[str]:
    raise ConfigError("name a model")


UNITS = [Unit(run, 300, ("none",)) for run in RUNS]


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_run_that_fails_does_not_stop_the_others(jobs: int) -> None:
    outcomes: list[Outcome[str]] = []
    on_cores(_told, UNITS, outcomes.append, jobs)
    assert sorted(record for one in outcomes for record in one.records) == ["a", "c"]
    assert [one.problem for one in outcomes if one.problem] == ["log.jsonl, b: ValueError: no good"]


def test_what_the_user_has_to_put_right_is_raised() -> None:
    with pytest.raises(ConfigError, match="name a model"):
        on_cores(_misled, UNITS, lambda outcome: None, 2)
    with pytest.raises(ConfigError, match="name a model"):
        side_by_side(_misled, UNITS, lambda outcome: None)


async def _slow(unit: Unit) -> list[str]:
    if unit.run.id == "a":
        return [unit.run.id]
    await asyncio.sleep(120)
    return []


def test_whoever_interrupts_does_not_wait_for_the_units_under_way() -> None:
    def stop(outcome: Outcome[str]) -> None:
        raise KeyboardInterrupt

    others = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        on_cores(_slow, UNITS, stop, 3)
    assert time.monotonic() - began < 60
    assert set(multiprocessing.active_children()) <= others


def test_units_wait_for_their_model_side_by_side() -> None:
    waiting: set[str] = set()

    async def together(unit: Unit) -> list[str]:
        waiting.add(unit.run.id)
        while len(waiting) < len(UNITS):
            await asyncio.sleep(0)
        return [unit.run.id]

    outcomes: list[Outcome[str]] = []
    side_by_side(together, UNITS, outcomes.append)
    assert sorted(record for one in outcomes for record in one.records) == ["a", "b", "c"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_killed_replay_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle: its workers end by themselves, and the same command does the rest."""
    write(tmp_path / "log.jsonl", *(long_run(50, f"run {number}") for number in range(8)))
    command = [
        sys.executable, "-m", "focusctx", "replay", "run", str(tmp_path / "log.jsonl"), "--budget", "500",
        "--methods", "none", "focus-d", "--jobs", "2", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    records = ReplayFolder(tmp_path / "out").runs
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
    alone, cluster = ReplayFolder(tmp_path / "1"), ReplayFolder(tmp_path / "2")
    walk_all(PLAN, alone.runs, unwatched)
    walk_all(replace(PLAN, engine="ray"), cluster.runs, unwatched)
    assert timeless(list(alone.runs)) == timeless(list(cluster.runs))
