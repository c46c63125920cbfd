"""The runner: retries, the spending limit, refusals, interruptions. Kills are in test_run_kill.py."""

import asyncio
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_helpers.made_jobs import METHODS, Desk, office, records_of, run_desk
from focusctx.errors import BenchError, ConfigError
from focusctx.jobs.engines import InProcess, Meter, Outcome
from focusctx.jobs.runner import Tally
from focusctx_bench.benchmarks import scripted_model
from focusctx_bench.job import BenchFolder, Job, TaskItem
from focusctx_bench.record import Record
from focusctx_bench.run import PATIENCE, Components, run_bench
from helpers.provider import Call, Provider, Received, Say


def run(job: Job, folder: Path, *, concurrency: int = 1, **options: Any) -> Tally:
    work = run_bench(job, Components(job).tasks(), BenchFolder(folder), InProcess(concurrency), **options)
    return asyncio.run(work)


def test_every_unit_has_its_record(tmp_path: Path) -> None:
    tally = run(office(2), tmp_path)
    assert (tally.left, tally.done, tally.failed, tally.stopped) == (0, {"office": 8}, {"office": 0}, None)
    records = list(BenchFolder(tmp_path).records)
    assert Counter(record.method for record in records) == dict.fromkeys(METHODS, 2)
    focus = next(record for record in records if record.method == "focus-d")
    assert focus.settings["draft"] == "offline"
    assert focus.settings["budget"] == 4096
    lines = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
    assert len(lines) == 8
    assert {line["ended"] for line in lines} <= {"done", "steps"}


def test_a_finished_run_does_nothing_again(tmp_path: Path) -> None:
    run(office(1), tmp_path)
    before = (tmp_path / "records.jsonl").read_bytes()
    tally = run(office(1), tmp_path)
    assert (tally.before, tally.done) == ({"office": 4}, {"office": 0})
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_many_at_once_make_the_same_records_as_one_after_the_other(tmp_path: Path) -> None:
    run(office(2), tmp_path / "one", concurrency=1)
    run(office(2), tmp_path / "many", concurrency=7)
    assert records_of(tmp_path / "one") == records_of(tmp_path / "many")


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
@settings(max_examples=15)
def test_in_however_many_sittings_each_task_is_done_once(
    tmp_path_factory: pytest.TempPathFactory, sittings: list[int]
) -> None:
    """The spending limit ends a sitting after any number of tasks; the next one goes on."""
    folder, desk = tmp_path_factory.mktemp("run"), Desk(price=1.0)
    for spent in [sum(sittings[: number + 1]) for number in range(len(sittings))]:
        tally = asyncio.run(run_desk(folder, desk, 15, max_cost=spent))
        assert len(desk.asked) == spent == round(tally.spending.total)
        assert tally.stopped == f"the spending limit of ${spent:,.2f} was reached"
    assert asyncio.run(run_desk(folder, desk, 15)).left == 0
    assert sorted(desk.asked) == [f"task {number:03d}" for number in range(15)]


def test_no_task_is_started_over_the_limit_but_those_that_run_are_finished(tmp_path: Path) -> None:
    desk = Desk(price=1.0, concurrency=4)
    tally = asyncio.run(run_desk(tmp_path, desk, 50, max_cost=10.0))
    assert 10 <= sum(tally.done.values()) < 10 + desk.concurrency
    assert sum(tally.done.values()) == len(list(BenchFolder(tmp_path).records))


def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the price of a desk is unknown"):
        asyncio.run(run_desk(tmp_path, Desk(price=None), 3, max_cost=1.0))
    tally = asyncio.run(run_desk(tmp_path, Desk(price=None), 3))
    assert tally.spending.unpriced
    assert tally.left == 0


def test_what_failed_is_tried_again_and_noted(tmp_path: Path) -> None:
    desk = Desk(price=0.5, failures={"task 001": 2, "task 002": 3})
    tally = asyncio.run(run_desk(tmp_path, desk, 4))
    assert Counter(desk.asked) == {"task 000": 1, "task 001": 3, "task 002": 3, "task 003": 1}
    assert (tally.done, tally.failed, tally.left) == ({"made": 3}, {"made": 1}, 1)
    noted = [(line.task, line.ended) for line in BenchFolder(tmp_path).attempts]
    assert noted.count(("task 002", "failed")) == 3
    assert noted.count(("task 001", "done")) == 1
    assert "the roof fell in" in tally.last_problem
    again = asyncio.run(run_desk(tmp_path, desk, 4))  # the roof is mended
    assert (again.before, again.done, again.left) == ({"made": 3}, {"made": 1}, 0)
    assert again.spending.total == 4.5  # nine attempts, failed ones too


def test_when_everything_fails_the_run_stops(tmp_path: Path) -> None:
    desk = Desk(failures={f"task {number:03d}": 99 for number in range(100)}, concurrency=3)
    tally = asyncio.run(run_desk(tmp_path, desk, 100))
    assert tally.stopped == f"{PATIENCE + 3} tasks in a row failed"
    assert len(set(desk.asked)) < 100


def test_an_environment_that_breaks_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from focusctx_bench.benchmarks.office import OfficeTask

    async def break_down(self: OfficeTask, call: object) -> str:
        raise RuntimeError("the printer is on fire")

    monkeypatch.setattr(OfficeTask, "act", break_down)
    tally = run(office(1, ["none"]), tmp_path, waits=())
    assert (tally.done, tally.failed) == ({"office": 0}, {"office": 1})
    (line,) = BenchFolder(tmp_path).attempts
    assert line.problem == "RuntimeError: the printer is on fire"
    assert "break_down" in line.trace


@pytest.mark.parametrize(
    ("change", "said"), [({"budgets": (999,)}, "budgets"), ({"count": 2}, "count"), ({"seed": 1}, "seed")]
)
def test_other_settings_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    job = office(1, ["none"])
    run(job, tmp_path)
    before = records_of(tmp_path)
    with pytest.raises(BenchError, match=f"other settings .there / now: {said}"):
        run(replace(job, **change), tmp_path)
    assert records_of(tmp_path) == before


def test_other_tasks_under_the_same_settings_are_refused(tmp_path: Path) -> None:
    asyncio.run(run_desk(tmp_path, Desk(), 3))
    with pytest.raises(BenchError, match="data has changed"):
        asyncio.run(run_desk(tmp_path, Desk(), 4))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tmp"
    precious.write_text("years of work")
    with pytest.raises(BenchError, match="other things"):
        asyncio.run(run_desk(tmp_path, Desk(), 3))
    assert precious.read_text() == "years of work"


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with BenchFolder(tmp_path).locked(), pytest.raises(BenchError, match="another command"):
        asyncio.run(run_desk(tmp_path, Desk(), 3))
    assert asyncio.run(run_desk(tmp_path, Desk(), 3)).left == 0


def test_a_note_that_was_cut_short_costs_no_other(tmp_path: Path) -> None:
    asyncio.run(run_desk(tmp_path, Desk(price=1.0), 3, max_cost=2.0))
    with (tmp_path / "attempts.jsonl").open("a") as file:
        file.write('{"benchmark": "made", "co')
    tally = asyncio.run(run_desk(tmp_path, Desk(price=1.0), 3))
    assert tally.spending.total == 3.0
    assert len(list(BenchFolder(tmp_path).attempts)) == 3


def test_when_it_is_cancelled_the_cost_so_far_is_kept(tmp_path: Path) -> None:
    class Slow(Desk):
        async def attempt(self, work: object, item: TaskItem, meter: Meter) -> Outcome[Record]:
            outcome = await super().attempt(work, item, meter)
            if len(self.asked) == 3:
                await asyncio.sleep(60)
            return outcome

    async def main() -> None:
        desk = Slow(price=1.0)
        work = asyncio.create_task(run_desk(tmp_path, desk, 9))
        while len(desk.asked) < 3:
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert [line.ended for line in BenchFolder(tmp_path).attempts] == ["done", "done", "interrupted"]
    assert BenchFolder(tmp_path).spent() == 3.0
    assert len(list(BenchFolder(tmp_path).records)) == 2


PRICES = """
[models]
"{name}" = {{ input = 2.0, output = 8.0, cache_read = 0.25 }}
"""


def _clerk(received: Received) -> Say:
    """The office's scripted agent, behind an API."""
    with ThreadPoolExecutor(1) as thread:  # the provider's own loop is busy with this very request
        turn = thread.submit(asyncio.run, scripted_model("office").answer(received.messages, ())).result()
    calls = [call["function"] for call in turn.message.get("tool_calls", ())]
    return Say(turn.text, tuple(Call(call["name"], json.loads(call["arguments"])) for call in calls))


def test_a_model_behind_an_api_costs_money(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(_clerk) as provider:
        name = f"openai:gpt-4.1@{provider.url}/v1"
        (tmp_path / "prices.toml").write_text(PRICES.format(name=name))
        monkeypatch.setenv("FOCUSCTX_PRICES", str(tmp_path / "prices.toml"))
        job = office(3, ["none", "focus-d"], model=name)
        tally = run(job, tmp_path / "run", concurrency=2, max_cost=0.05)
        assert tally.stopped
        assert tally.left
        spent = tally.spending.total
        assert run(job, tmp_path / "run").left == 0
    records = list(BenchFolder(tmp_path / "run").records)
    assert {record.model for record in records} == {name}
    assert len(provider.received) == sum(len(record.steps) for record in records)  # nothing was asked twice
    total = sum(step.billed or 0.0 for record in records for step in record.steps)
    assert BenchFolder(tmp_path / "run").spent() == pytest.approx(total)
    assert total > spent > 0.05
