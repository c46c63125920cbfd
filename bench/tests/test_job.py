"""Jobs: what they consist of, and that they can be told apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_helpers.made_jobs import office
from focusctx.errors import BenchError, ConfigError
from focusctx_bench.baselines.registry import ALL
from focusctx_bench.job import Job, TaskItem
from focusctx_bench.protocols import Options, Task

words = st.text(min_size=1, max_size=8)
options = st.builds(
    Options,
    data=st.none() | st.just(Path("/data/x y")),
    split=st.text(max_size=5),
    seed=st.integers(0, 99),
    more=st.dictionaries(words, words, max_size=2),
)
jobs = st.builds(
    Job,
    benchmarks=st.dictionaries(words, options, min_size=1, max_size=3),
    methods=st.lists(st.sampled_from(ALL), min_size=1, unique=True).map(tuple),
    model=st.none() | words,
    drafts=st.lists(words, min_size=1, max_size=3, unique=True).map(tuple),
    budgets=st.lists(st.integers(1, 9999), max_size=3, unique=True).map(tuple),
    rollouts=st.lists(st.integers(1, 20), min_size=1, max_size=3, unique=True).map(tuple),
    compressor=st.none() | words,
    count=st.none() | st.integers(1, 99),
    tasks=st.lists(words, max_size=3).map(tuple),
)


@given(jobs)
def test_written_and_read_again(job: Job) -> None:
    again = Job.from_json(job.to_json())
    assert again == job
    assert again.digest == job.digest
    assert job.differences(again) == []


@given(jobs, jobs)
def test_other_jobs_are_told_apart(one: Job, other: Job) -> None:
    assert (one == other) == (one.differences(other) == []) == (one.digest == other.digest)


@given(jobs)
def test_no_two_variants_share_a_name(job: Job) -> None:
    for name in job.benchmarks:
        names = [variant.name for variant in job.variants(name)]
        assert len(set(names)) == len(names)


def test_a_sweep_repeats_only_methods_that_look_at_the_setting() -> None:
    job = office(methods=("none", "fifo", "retrieval", "focus-d"), budgets=(1024, 2048), rollouts=(1, 3, 5))
    found = [variant.name for variant in job.variants("office")]
    assert found.count("none") == found.count("fifo") == 1
    assert sum(name.startswith("retrieval") for name in found) == 2
    assert sum(name.startswith("focus-d") for name in found) == 6
    assert "focus-d budget=1024 draft=offline rollouts=5 threshold=0.3" in found


def test_summaries_are_written_by_the_drafts_unless_a_compressor_is_named() -> None:
    job = office(methods=("prompting",), drafts=("openai:a", "openai:b"))
    assert [variant.settings["compressor"] for variant in job.variants("office")] == ["openai:a", "openai:b"]
    named = replace(job, compressor="openai:c")
    assert [variant.settings["compressor"] for variant in named.variants("office")] == ["openai:c"]


@pytest.mark.parametrize(("benchmark", "budget"), [("appworld", 4096), ("officebench", 2048), ("qa8", 2048)])
def test_the_budget_is_the_papers(benchmark: str, budget: int) -> None:
    job = Job(benchmarks={benchmark: Options()}, methods=("focus-d",))
    assert [variant.settings["budget"] for variant in job.variants(benchmark)] == [budget]


def test_all_methods_of_a_task_come_before_the_next_task() -> None:
    job = office(methods=("none", "fifo"))
    items = list(job.items({"office": [Task("a"), Task("b")]}))
    assert [(item.task.id, item.variant.method) for item in items] == [
        ("a", "none"), ("a", "fifo"), ("b", "none"), ("b", "fifo"),
    ]  # fmt: skip


def test_a_record_says_how_it_was_made() -> None:
    job = Job(benchmarks={"tau2": Options(more={"domain": "retail"})}, methods=("focus-o",), seed=7, step_limit=9)
    item = TaskItem("tau2", job.variants("tau2")[0], Task("1"))
    assert job.settings(item) == {
        "budget": 1024, "draft": "offline", "rollouts": 3, "threshold": 0.3,
        "split": "", "options": {"domain": "retail"}, "seed": 7, "step_limit": 9,
    }  # fmt: skip


def test_a_rollout_mode_is_part_of_the_settings_only_where_one_is_chosen() -> None:
    job = office(methods=("none", "focus-d"), rollout_modes=("parallel", "sequential"))
    assert [variant.settings.get("rollout_mode") for variant in job.variants("office")] == [
        None, "parallel", "sequential",
    ]  # fmt: skip
    plain = office(methods=("focus-d",))
    (variant,) = plain.variants("office")
    assert variant.name == "focus-d budget=4096 draft=offline rollouts=3 threshold=0.3"
    assert "rollout_mode" not in plain.settings(TaskItem("office", variant, Task("1")))


def test_every_task_is_repeated_under_a_key_of_its_own() -> None:
    items = list(office(methods=("none", "fifo"), repeats=3).items({"office": [Task("a"), Task("b")]}))
    assert len({item.key for item in items}) == len(items) == 12
    assert [item.repeat for item in items[:5]] == [1, 1, 1, 1, 2]  # the first repeat is whole before the second begins
    assert items[0].key == ("office", "none", "a")
    with pytest.raises(ConfigError, match="repeats must be 1 or more"):
        office(repeats=0).check()


def test_a_run_from_before_several_thresholds_can_be_read() -> None:
    old = office(methods=("focus-d",)).to_json()
    for name in ("thresholds", "rollout_modes", "repeats"):
        del old[name]
    assert Job.from_json({**old, "threshold": 0.5}) == office(methods=("focus-d",), thresholds=(0.5,))


def test_settings_of_another_version_are_refused() -> None:
    with pytest.raises(BenchError, match="version 99"):
        Job.from_json({**office().to_json(), "version": 99})
    with pytest.raises(BenchError, match="cannot be read"):
        Job.from_json({"version": 2})


@pytest.mark.parametrize("wrong", [{"budgets": (-1,)}, {"rollouts": (3, -1)}, {"tasks": -2}, {"methods": ()}])
def test_what_no_run_could_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        office(**wrong).check()
