"""Leave-one-out divergences by sampling: a model that knows only what its prompt shows, over a real socket."""

import asyncio
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drafts.conftest import serve
from focusctx.drafts.registry import draft_from
from focusctx.prices import Price
from focusctx.replay.facts import Evidence
from focusctx_bench.replay.points import Point, points_of
from focusctx_bench.replay.study.findings import action_divergence, kl, plan_divergence
from focusctx_bench.replay.study.scoring import Amounts, likelihood_file, read_choice, sample_points
from replay.logs import long_run

__all__ = ["serve"]

KEY = "key_0004"
AMOUNTS = Amounts(actions=3, lists=1, plans=1)


class Chooser:
    """Takes the first action where the trace shows the key, and any of the three by chance where it does not."""

    def __init__(self, words: str = "{}") -> None:
        self._chance = random.Random(7)
        self._words = words
        self.choices = 0

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        user, n = body["messages"][-1]["content"], body.get("n", 1)
        if "Actions:" not in user:
            texts = [f"use {KEY}\nuse nothing\nask the user"] * n
        else:
            trace = user.partition("Actions:")[0]
            self.choices += n
            texts = [self._words.format(1 if KEY in trace else self._chance.randint(1, 3)) for _ in range(n)]
        choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
        return {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": n}}


@pytest.fixture
def points() -> list[Point]:
    return [points_of(Evidence(long_run(id=f"run {n}")), 300, (1,))[0] for n in range(2)]


async def run(url: str, points: list[Point], path: Path, samples: int = 60, price: Price | None = None) -> Any:
    file = likelihood_file(path)
    draft = draft_from(f"openai:chooser@{url}/v1")

    amounts = replace(AMOUNTS, samples=samples)

    def work() -> Any:
        return sample_points(draft, points, file, amounts=amounts, price=price, watch=lambda _: None)

    return await asyncio.to_thread(work), file


async def test_the_span_that_gave_the_key_has_all_the_utility(serve: Any, points: list[Point], tmp_path: Path) -> None:
    chooser = Chooser("The number: {}.")
    server = await serve(chooser)
    tally, file = await run(server.url, points, tmp_path / "likelihoods.jsonl")
    found = {one.place: one for one in file}
    assert found.keys() == {point.place for point in points}
    assert tally.done == {"samples": 2}
    one = found[points[0].place]
    assert one.model.endswith("60 samples")
    utility = action_divergence(one)
    assert sorted(utility) == list(points[0].at_stake)
    shown = {span.index for span in points[0].history.spans if KEY in span.action + span.observation}
    best = max(utility, key=lambda index: utility[index])
    if len(shown & utility.keys()) == 1:
        assert {best} == shown & utility.keys()
    assert utility[best] > 0.5
    assert all(value == pytest.approx(0.0, abs=1e-9) for index, value in utility.items() if index not in shown)
    assert plan_divergence(one) == {}
    assert chooser.choices == sum(60 * (1 + len(point.at_stake)) for point in points)


async def test_it_is_the_divergence_of_smoothed_shares(serve: Any, points: list[Point], tmp_path: Path) -> None:
    server = await serve(Chooser())
    _, file = await run(server.url, points[:1], tmp_path / "likelihoods.jsonl", samples=10)
    (one,) = file
    full = [(10 + 0.5) / 11.5, 0.5 / 11.5, 0.5 / 11.5]
    assert [math.exp(log) for log in one.full] == pytest.approx(full, abs=1e-5)
    for index, logs in one.without.items():
        assert sum(math.exp(log) for log in logs) == pytest.approx(1, abs=1e-4)
        assert action_divergence(one)[index] == pytest.approx(kl(full, [math.exp(log) for log in logs]), abs=1e-4)


async def test_what_is_recorded_is_not_asked_again(serve: Any, points: list[Point], tmp_path: Path) -> None:
    server = await serve(Chooser())
    await run(server.url, points[:1], tmp_path / "likelihoods.jsonl", samples=5)
    asked = len(server.bodies)
    tally, _ = await run(server.url, points[:1], tmp_path / "likelihoods.jsonl", samples=5)
    assert len(server.bodies) == asked
    assert tally.before == {"samples": 1}


async def test_its_cost_is_counted(serve: Any, points: list[Point], tmp_path: Path) -> None:
    server = await serve(Chooser())
    tally, _ = await run(server.url, points[:1], tmp_path / "x.jsonl", samples=5, price=Price(input=1e6, output=0.0))
    assert tally.spending.total == pytest.approx(100 * len(server.bodies))


async def test_a_model_that_never_chooses_is_a_failure(serve: Any, points: list[Point], tmp_path: Path) -> None:
    server = await serve(Chooser("I cannot say {{}}"))
    tally, file = await run(server.url, points[:1], tmp_path / "x.jsonl", samples=5)
    assert tally.failures == 1
    assert list(file) == []


def test_choices_are_read_from_what_models_write() -> None:
    assert read_choice("2", 3) == read_choice("**2.** use key", 3) == 1
    assert read_choice("4", 3) is read_choice("0", 3) is read_choice("none", 3) is None
