"""Estimates: of the right order beside the paper's own bills, and by records once there are some."""

from pathlib import Path

import pytest

from bench_helpers.made_jobs import office
from bench_helpers.reported import plain, write_run
from focusctx_bench.job import BUDGETS, BenchFolder, Job
from focusctx_bench.metrics import recommended_budget
from focusctx_bench.protocols import Options, Task
from focusctx_bench.spending import PROFILES, estimate


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def tasks(benchmark: str, count: int) -> dict[str, list[Task]]:
    return {benchmark: [Task(f"t{number}") for number in range(count)]}


def test_it_is_of_the_order_of_the_papers_bills(tmp_path: Path) -> None:
    job = Job(
        benchmarks={"officebench": Options()},
        methods=("none", "focus-d"),
        model="openai:gpt-4.1",
        drafts=("openai:gpt-4.1-mini",),
        rollout_modes=("parallel",),
    )
    none, focus = estimate(job, tasks("officebench", 95), BenchFolder(tmp_path))
    assert none.cost == pytest.approx(9.47, rel=0.3)
    assert focus.cost == pytest.approx(6.16, rel=0.5)
    assert none.requests == pytest.approx(1014, rel=0.1)
    assert "paper" in none.basis


def test_a_model_without_a_price_has_no_cost(tmp_path: Path) -> None:
    job = office(3, ["none"], model="openai:some-model@http://127.0.0.1:1/v1")
    (found,) = estimate(job, tasks("office", 3), BenchFolder(tmp_path))
    assert found.cost is None
    assert found.input_tokens > 0


def test_the_user_simulator_and_the_judge_are_part_of_it(tmp_path: Path) -> None:
    def cost(**more: str) -> float:
        job = Job(benchmarks={"tau2": Options(more=more)}, methods=("none",), model="openai:gpt-4.1")
        (found,) = estimate(job, tasks("tau2", 10), BenchFolder(tmp_path))
        assert found.cost is not None
        return found.cost

    assert cost(user="openai:gpt-4.1") > cost(user="openai:gpt-4.1-mini") > cost()


def test_one_request_for_all_sketches_reads_the_history_once(tmp_path: Path) -> None:
    job = office(1, ["focus-d"], model="openai:gpt-4.1", drafts=("openai:gpt-4.1",), rollout_modes=("n", "parallel"))
    together, apart = estimate(job, tasks("office", 1), BenchFolder(tmp_path))
    assert together.input_tokens < apart.input_tokens
    assert together.output_tokens == apart.output_tokens


def test_records_replace_the_model_and_only_what_is_left_is_counted(tmp_path: Path) -> None:
    job = office(4, ["none"], repeats=2)
    write_run(tmp_path, job, lambda item, number: plain(item, number) if item.repeat == 1 else None)
    (found,) = estimate(job, tasks("office", 4), BenchFolder(tmp_path))
    assert (found.tasks, found.basis) == (4, "4 records here")
    assert found.cost == pytest.approx(4 * 0.02)  # two steps of a cent each


@pytest.mark.parametrize(("benchmark", "median"), [("appworld", 9278), ("officebench", 4359), ("webvoyager", 11625)])
def test_the_rule_for_budgets_gives_the_papers_where_it_states_one(benchmark: str, median: float) -> None:
    assert recommended_budget([median]) == BUDGETS[benchmark]


@pytest.mark.parametrize("median", [3157, 2694, 2210])
def test_the_rule_for_budgets_on_the_domains_of_tau2(median: float) -> None:
    assert recommended_budget([median]) == BUDGETS["tau2"] == 1024


def test_every_benchmark_has_a_profile() -> None:
    from focusctx_bench.benchmarks import NAMES

    assert set(PROFILES) == set(NAMES)
