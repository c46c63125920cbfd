"""Engines: the same outcomes in this process and in others; one that fails does not stop the others."""

import asyncio
import multiprocessing
import time
from dataclasses import dataclass

import pytest

from focusctx.errors import BenchError, ConfigError, MissingExtraError
from focusctx.jobs.engines import Engine, InProcess, Meter, Processes, engine_named, on_cores
from focusctx.jobs.runner import Runner, Tally


@dataclass(frozen=True)
class Item:
    id: str

    def __str__(self) -> str:
        return f"item {self.id}"


ITEMS = [Item("a"), Item("b"), Item("c")]


def run(engine: Engine, work, found: list[str], items=ITEMS, **options) -> Tally:
    return Runner(engine, work, found.extend, part=lambda _: "items", **options).run_all(items)


async def fails_at_b(item: Item, meter: Meter) -> list[str]:
    meter.add(0.5, "a model")
    if item.id == "b":
        raise ValueError("no good")
    return [item.id]


async def refuses(item: Item, meter: Meter) -> list[str]:
    raise ConfigError("name a model")


async def lacks(item: Item, meter: Meter) -> list[str]:
    raise MissingExtraError("it", "extra")


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_that_fails_does_not_stop_the_others(jobs: int) -> None:
    found: list[str] = []
    tally = run(on_cores(3, jobs), fails_at_b, found)
    assert sorted(found) == ["a", "c"]
    assert (tally.done, tally.failed, tally.left) == ({"items": 2}, {"items": 1}, 1)
    assert tally.last_problem == "item b: ValueError: no good"
    assert tally.spending.total == 1.5


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("work", "said"), [(refuses, "name a model"), (lacks, r"focusctx\[extra\]")])
def test_what_the_user_has_to_fix_is_raised(jobs: int, work, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run(on_cores(3, jobs), work, [])


def test_items_wait_side_by_side() -> None:
    waiting: set[str] = set()

    async def together(item: Item, meter: Meter) -> list[str]:
        waiting.add(item.id)
        while len(waiting) < len(ITEMS):
            await asyncio.sleep(0)
        return [item.id]

    found: list[str] = []
    run(InProcess(3), together, found)
    assert sorted(found) == ["a", "b", "c"]


async def slow(item: Item, meter: Meter) -> list[str]:
    if item.id != "a":
        await asyncio.sleep(120)
    return [item.id]


def test_an_interrupted_job_does_not_wait_for_the_items_under_way() -> None:
    def stop(tally: Tally) -> None:
        if sum(tally.done.values()):
            raise KeyboardInterrupt

    others = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(Processes(3), slow, [], watch=stop)
    assert time.monotonic() - began < 60
    while left := set(multiprocessing.active_children()) - others:
        assert time.monotonic() - began < 70, left
        time.sleep(0.05)


async def dies(item: Item, meter: Meter) -> list[str]:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    return []


def test_a_worker_that_is_killed_is_a_failure() -> None:
    tally = run(Processes(2), dies, [])
    assert tally.failed == {"items": 3}
    assert "a worker process was killed" in tally.last_problem


def test_no_more_processes_than_items() -> None:
    assert isinstance(on_cores(1, 8), InProcess)
    assert on_cores(0).concurrency == 1
    engine = on_cores(3, 8)
    assert engine.concurrency == 3
    engine.close()


def test_an_engine_that_is_not_installed() -> None:
    with pytest.raises((ConfigError, BenchError), match="focusctx-bench"):
        engine_named("abacus")
