"""The runner: retries, the spending limit, patience, interruptions. The bench's own tests add folders and kills."""

import asyncio
from typing import Any

import pytest

from focusctx.errors import ConfigError, DraftError
from focusctx.jobs.engines import InProcess, Meter, Outcome, Spending
from focusctx.jobs.runner import Runner, Tally


class Shop:
    """Work for a price, which fails a given number of times for each item."""

    def __init__(self, price: float | None = 1.0, failures: dict[int, int] | None = None) -> None:
        self.price = price
        self.failures = failures or {}
        self.asked: list[int] = []
        self.kept: list[int] = []
        self.notes: list[tuple[int, str, float | None]] = []

    async def work(self, item: int, meter: Meter) -> list[int]:
        self.asked.append(item)
        meter.add(self.price, "the shop")
        if self.failures.get(item, 0) > 0:
            self.failures[item] -= 1
            raise DraftError("closed")
        return [item]

    def note(self, item: int, outcome: Outcome[int] | None, seconds: float, cost: float | None) -> None:
        self.notes.append((item, "interrupted" if outcome is None else outcome.problem, cost))

    def runner(self, *, limit: float | None = None, concurrency: int = 1, **options: Any) -> Runner[int, int]:
        return Runner(
            InProcess(concurrency), self.work, self.kept.extend,
            part=lambda _: "goods", is_done=self.kept.__contains__, note=self.note,
            tally=Tally(spending=Spending(limit)), **options,
        )  # fmt: skip


def test_what_failed_is_tried_again_and_noted() -> None:
    shop = Shop(failures={1: 2, 2: 9})
    tally = shop.runner(waits=(0.0, 0.0)).run_all(range(4))
    assert shop.asked == [0, 1, 1, 1, 2, 2, 2, 3]
    assert (tally.done, tally.failed, tally.left) == ({"goods": 3}, {"goods": 1}, 1)
    assert tally.last_problem == "2: closed"
    assert [problem for item, problem, _ in shop.notes if item == 1] == ["closed", "closed", ""]
    again = shop.runner().run_all(range(4))
    assert (again.before, again.left) == ({"goods": 3}, 1)


def test_no_item_is_started_once_the_money_is_spent() -> None:
    shop = Shop()
    tally = shop.runner(limit=3.0).run_all(range(10))
    assert shop.kept == [0, 1, 2]
    assert tally.stopped == "the spending limit of $3.00 was reached"
    assert tally.left == 7


def test_a_limit_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ConfigError, match="the price of the shop is unknown"):
        Shop(price=None).runner(limit=3.0).run_all(range(3))
    shop = Shop(price=None)
    assert shop.runner().run_all(range(3)).spending.unpriced
    assert [cost for *_, cost in shop.notes] == [None] * 3


def test_too_many_failures_in_a_row_stop_the_job() -> None:
    shop = Shop(failures=dict.fromkeys(range(100), 1))
    tally = shop.runner(patience=5, concurrency=2).run_all(range(100))
    assert tally.stopped == "7 tasks in a row failed"
    assert len(shop.asked) < 10


async def test_an_interrupted_attempt_is_noted_with_its_cost() -> None:
    class Slow(Shop):
        async def work(self, item: int, meter: Meter) -> list[int]:
            await super().work(item, meter)
            if item == 2:
                await asyncio.sleep(60)
            return [item]

    shop = Slow()
    work = asyncio.create_task(shop.runner().run(range(9)))
    while len(shop.asked) < 3:
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert shop.notes == [(0, "", 1.0), (1, "", 1.0), (2, "interrupted", 1.0)]
    assert shop.kept == [0, 1]
