"""The paper's figures: transcribed faithfully, and shown only where the setting is the paper's."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_helpers.made import a_record
from bench_helpers.reported import plain, write_run
from focusctx_bench.baselines.registry import ALL
from focusctx_bench.job import Job
from focusctx_bench.protocols import Options
from focusctx_bench.report.document import render
from focusctx_bench.results.collect import Study, StudyLine, collect, paper_figures, plain_name, transcribed_tables
from focusctx_bench.results.document import document

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "focus.tex"
COUNTS = {"appworld": 168, "officebench": 95, "qa8": 100}
CLASSES = {"appworld": {"easy": 57, "medium": 48, "hard": 63}}
OPTIONS = {"officebench": {"splits": "acon.json"}, "qa8": {"retriever": "http://127.0.0.1:1"}}
FOCUS: dict[str, Any] = {"draft": "openai:gpt-4.1", "budget": 4096, "rollouts": 3, "threshold": 0.3}


def figures(
    benchmark: str, method: str, model: str = "openai:gpt-4.1", difficulty: str = "", **settings: Any
) -> dict[str, float]:
    """The paper's figure beside a run of its tasks with these settings."""
    options, seed = settings.pop("options", OPTIONS.get(benchmark)), settings.pop("seed", 42)
    study = Study(benchmark, model, {"split": settings.pop("split", ""), "options": options, "seed": seed})
    classes = settings.pop("classes", CLASSES.get(benchmark, {"": COUNTS.get(benchmark, 4)}))
    prefix = settings.pop("prefix", "qa8-test-")
    line = StudyLine(method, settings)
    names = [name for name, tasks in classes.items() for _ in range(tasks)]
    for number, name in enumerate(names):
        line.add(replace(a_record(f"{prefix}{number:03d}"), difficulty=name))
    return paper_figures(study, line, difficulty)


def test_the_same_setting() -> None:
    assert figures("appworld", "focus-d", **FOCUS)["accuracy"] == 64.9
    assert figures("appworld", "none", "azure:gpt-4.1-2025-04-14")["accuracy"] == 56.0
    assert figures("appworld", "focus-d", **{**FOCUS, "draft": "vllm:Qwen/Qwen3-8B"})["accuracy"] == 65.5
    assert figures("appworld", "none", split="test_normal")["accuracy"] == 56.0
    assert figures("officebench", "focus-d", split="test", **{**FOCUS, "budget": 2048, "rollouts": 10})["steps"] == 10.2
    assert figures("qa8", "prompting", split="test", compressor="openai:gpt-4.1", budget=2048)["em"] == 0.376
    mini = {**FOCUS, "draft": "openai:gpt-4.1-mini"}
    assert figures("appworld", "focus-d", "openai:gpt-4.1-mini", "hard", **mini)["dependency"] == 5.78


def test_limits_on_searches_are_another_setting() -> None:
    settings = {"split": "test", "compressor": "openai:gpt-4.1", "budget": 2048}
    for name in ("passages", "searches", "per_turn"):
        assert not figures("qa8", "prompting", options={**OPTIONS["qa8"], name: "5"}, **settings)


def test_totals_are_per_task() -> None:
    found = figures("officebench", "none", split="test")
    assert found["cost"] == pytest.approx(9.47 / 95)
    assert found["agent_requests"] == pytest.approx(1014 / 95)
    assert found["seconds"] == 47.2


@pytest.mark.parametrize(
    "change",
    [
        {"budget": 2048}, {"rollouts": 5}, {"threshold": 0.5}, {"draft": "offline"}, {"split": "test_challenge"},
        {"model": "openai:gpt-5"}, {"difficulty": "hard"}, {"benchmark": "office"}, {"method": "masking-5"},
        {"model": "openai:gpt-4.1@http://127.0.0.1:1/v1"}, {"draft": "openai:gpt-4.1@http://127.0.0.1:1/v1"},
        {"model": "vllm:gpt-4.1"}, {"classes": {"easy": 57, "medium": 48, "hard": 62}}, {"seed": 7},
    ],
)  # fmt: skip
def test_another_setting_has_no_figure(change: dict[str, Any]) -> None:
    assert figures(**{"benchmark": "appworld", "method": "focus-d", **FOCUS, **change}) == {}


def test_all_of_officebench_is_not_the_papers_split() -> None:
    assert figures("officebench", "none") == {}
    assert figures("officebench", "none", split="test", options={}) == {}


def test_groups_drawn_here_are_not_the_papers_questions() -> None:
    assert figures("qa8", "none", split="test")["em"] == 0.366
    assert figures("qa8", "none", split="test", prefix="qa8-42-test-") == {}
    assert figures("qa8", "none", split="test", options={}) == {}


def test_latency_stands_beside_the_same_way_of_requesting_sketches() -> None:
    mini = {**FOCUS, "draft": "openai:gpt-4.1-mini", "budget": 2048}
    assert figures("officebench", "focus-d", split="test", **mini, rollout_mode="sequential")["seconds"] == 40.2
    parallel = figures("officebench", "focus-d", split="test", **mini, rollout_mode="parallel")
    assert (parallel["seconds"], parallel["event_milliseconds"]) == (36.5, 2145)
    assert "seconds" not in figures("officebench", "focus-d", split="test", **mini)


def test_baselines_count_only_as_the_paper_ran_them() -> None:
    assert not figures("appworld", "retrieval", budget=4096, embedder="openai:text-embedding-3-small")  # not named
    assert figures("appworld", "llmlingua", budget=4096)
    assert not figures("appworld", "retrieval", budget=4096, embedder="words")
    assert not figures("appworld", "llmlingua", budget=4096, llmlingua_model="my/xlm-roberta-large")
    acon = {"split": "test", "budget": 2048, "compressor": "openai:gpt-4.1"}
    assert figures("qa8", "acon-ut", **acon, guideline_ut="ut.md")
    assert not figures("qa8", "acon-ut", **acon, guideline_ut="shipped:qa8/ut.md")  # made with other agents


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("openai:gpt-4.1@http://127.0.0.1:1/v1", "gpt-4.1"),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("transformers:/models/Qwen3-14B", "qwen3-14b"),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_in_the_report(tmp_path: Path) -> None:
    job = Job(
        benchmarks={"appworld": Options()},
        methods=("none", "focus-d"),
        model="openai:gpt-4.1",
        drafts=("openai:gpt-4.1",),
    )
    write_run(tmp_path, job, plain, tasks=168, classes=("",))
    text = render(document(tmp_path), "markdown")
    assert "(paper 56)" in text
    assert "over 168 tasks (tab:appworld, tab:appworld_token_stats, tab:long_horizon_stats)" in text
    assert len(collect(tmp_path)) == 1


def test_every_row_is_as_long_as_its_head() -> None:
    for table in transcribed_tables():
        assert set(table["rows"]) <= set(ALL)
        for row in table["rows"].values():
            assert len(row) == len(table["columns"])


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_every_figure_stands_in_the_table_that_it_is_cited_from() -> None:
    text = PAPER.read_text()
    for table in transcribed_tables():
        place = text.index(rf"\label{{{table['label']}}}")
        begin = text.rindex(r"\begin{tabular}", 0, place)
        said = [float(word) for word in re.findall(r"\d+(?:\.\d+)?", text[begin:place].replace("{,}", ""))]
        for row in table["rows"].values():
            missing = [figure for figure in row if figure not in said and figure != 0]
            assert not missing, (table["label"], missing)
