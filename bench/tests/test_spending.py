"""Money: every model has a price before the first request, and environments' own models count."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_helpers.made_jobs import office
from focusctx.errors import ConfigError
from focusctx.jobs.engines import InProcess, Meter, Spending
from focusctx_bench.benchmarks.qa8 import EightQuestionsTask
from focusctx_bench.job import BenchFolder, Job
from focusctx_bench.protocols import Options, Score
from focusctx_bench.run import Components, run_bench
from focusctx_bench.spending import charging, check_prices, environment_model, paid_models
from helpers.provider import Provider, Say

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_every_model_of_a_job_is_known_before_it_runs() -> None:
    tau2 = Options(more={"domain": "retail", "user": "openai:gpt-4.1-mini", "judge": "openai:gpt-5"})
    job = Job(
        benchmarks={"tau2": tau2},
        methods=("none", "retrieval", "prompting", "focus-d"),
        model="openai:gpt-4.1",
        drafts=("openrouter:qwen/qwen3-8b", "openai:gpt-4.1-nano"),
        compressor="openai:gpt-5-mini",
        embedder="openai:text-embedding-3-large",
    )
    found = paid_models(job)
    assert set(found) == {
        "openai:gpt-4.1", "openai:gpt-4.1-mini", "openai:gpt-5", "openrouter:qwen/qwen3-8b", "openai:gpt-4.1-nano",
        "openai:gpt-5-mini", "openai:text-embedding-3-large",
    }  # fmt: skip
    assert [name for name, price in found.items() if price is None] == ["openrouter:qwen/qwen3-8b"]


@pytest.mark.parametrize(
    "change",
    [
        {"drafts": ("openrouter:qwen/qwen3-8b",)},
        {"embedder": "openai:some-embedding", "methods": ("retrieval",)},
        {"compressor": "openai:some-writer", "methods": ("prompting",)},
        {"benchmarks": {"office": Options(), "tau2": Options(more={"user": "openai:some-customer"})}},
    ],
)
def test_a_model_without_a_price_is_refused_before_the_first_request(change: dict[str, Any], tmp_path: Path) -> None:
    with Provider(lambda _: Say("hello")) as provider:
        job = replace(office(methods=("focus-d",), model="openai:gpt-4.1", drafts=("openai:gpt-4.1",)), **change)
        with pytest.raises(ConfigError, match=r"the spending limit cannot be kept: no price is known for open"):
            asyncio.run(run_bench(job, {"office": []}, BenchFolder(tmp_path), InProcess(), max_cost=1.0))
        assert provider.received == []
    assert len(check_prices(job, None)) == 1  # without a limit it may run, and is told so


async def test_the_models_of_an_environment_are_charged_to_the_task_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Provider(lambda _: Say("hello")) as provider:
        name = f"openai:customer@{provider.url}/v1"
        (tmp_path / "prices.toml").write_text(f'[models]\n"{name}" = {{ input = 1000.0, output = 1000.0 }}')
        monkeypatch.setenv("FOCUSCTX_PRICES", str(tmp_path / "prices.toml"))
        customer = environment_model(name, "the customer", seed=1)
        spending = Spending(limit=100.0)
        one, other = Meter(spending), Meter(spending)

        async def ask(meter: Meter, times: int) -> None:
            with charging(meter.add):
                for _ in range(times):
                    await customer.answer(HELLO, ())

        await asyncio.gather(ask(one, 1), ask(other, 3))
        await customer.answer(HELLO, ())  # of no task: counted nowhere
    assert one.cost
    assert other.cost
    assert other.cost == pytest.approx(3 * one.cost)
    assert spending.total == pytest.approx(one.cost + other.cost)


def test_the_spending_limit_counts_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A free agent and a dear judge: the run stops after its first task."""
    with Provider(lambda _: Say("SUCCESS")) as provider:
        name = f"openai:judge@{provider.url}/v1"
        (tmp_path / "prices.toml").write_text(f'[models]\n"{name}" = {{ input = 9e5, output = 9e5 }}')
        monkeypatch.setenv("FOCUSCTX_PRICES", str(tmp_path / "prices.toml"))
        score = EightQuestionsTask.score

        async def judged(self: EightQuestionsTask) -> Score:
            await environment_model(name, "the judge", seed=1).answer(HELLO, ())
            return await score(self)

        monkeypatch.setattr(EightQuestionsTask, "score", judged)
        lines = [
            f'{{"question": "q{n}", "answer": "a", "ctxs": [{{"title": "t", "text": "q{n}"}}]}}' for n in range(32)
        ]
        (tmp_path / "questions.jsonl").write_text("\n".join(lines))
        job = Job(benchmarks={"qa8": Options(data=tmp_path / "questions.jsonl", split="all")}, methods=("none",))
        folder = BenchFolder(tmp_path / "run")
        work = run_bench(job, Components(job).tasks(), folder, InProcess(), max_cost=1.0)
        tally = asyncio.run(work)
    assert tally.stopped == "the spending limit of $1.00 was reached"
    assert sum(tally.done.values()) == 1 < tally.left
    assert folder.spent() > 1.0
