"""`focusctx bench`: run, report, tasks; with no key and no network."""

import json
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench_helpers.reported import plain as made
from bench_helpers.reported import write_run
from focusctx.baselines.embedders import default_embedder
from focusctx_bench.baselines.registry import ALL
from focusctx_bench.benchmarks import NAMES
from focusctx_bench.cli.tables import print_tables
from focusctx_bench.job import BenchFolder, Job
from focusctx_bench.protocols import Options

OFFICE = ("bench", "run", "--benchmark", "office")


def test_all_methods_on_a_bare_machine(focusctx, tmp_path):
    code, out, err = focusctx(
        *OFFICE, "--methods", "all", "--draft", "offline", "--tasks", 1, "--out", tmp_path / "run"
    )
    assert code == 0
    assert "office, agent scripted:office" in out
    for name in ("No compression", "FIFO", "Retrieval", "Masking, M = 5", "FOCUS-O", "FOCUS-D"):
        assert name in out
    assert "acon-ut is left out: acon-ut needs the file of a guideline" in err
    assert "prompting is left out" in err
    assert err.count("\n") < 12
    assert "8/8 tasks" in err


def test_the_same_command_goes_on(focusctx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = (*OFFICE, "--methods", "none", "fifo", "--tasks", 2)
    assert focusctx(*command)[0] == 0
    (folder,) = (tmp_path / "focusctx-bench").iterdir()
    records = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    assert len(records) == 4
    (folder / "records.jsonl").write_text("".join(records[:3]))
    code, _, err = focusctx(*command)
    assert code == 0
    assert "3/4 tasks" in err
    assert (folder / "records.jsonl").read_text().startswith("".join(records[:3]))
    assert len(list(BenchFolder(folder).records)) == 4
    assert focusctx("bench", "run", "--out", folder)[0] == 0
    assert focusctx(*command, "--seed", 7)[0] == 0  # other settings have another folder
    assert len(list((tmp_path / "focusctx-bench").iterdir())) == 2


def test_other_settings_in_the_same_folder_are_refused(focusctx, tmp_path):
    command = (*OFFICE, "--methods", "none", "--tasks", 1, "--out", tmp_path / "run")
    assert focusctx(*command)[0] == 0
    code, out, err = focusctx(*command, "--seed", 7)
    assert (code, out) == (2, "")
    assert "holds a run with other settings" in err
    assert "seed: 42 / 7" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--draft", "scripted"), 'drafts: ["offline"] / ["scripted"]'),
        (("--budget", 2048), "budgets: [] / [2048]"),
        (("--methods", "none"), 'methods: ["none", "fifo"] / ["none"]'),
        (("--tasks", 7), "count: 1 / 7"),
        (("--rollouts", 3), "rollouts: [5] / [3]"),
        (("--seed", 42), "seed: 7 / 42"),
        (("--set", "tasks=3"), 'office.more: {} / {"tasks": "3"}'),
    ],
)
def test_a_folder_alone_refuses_what_it_was_not_told(focusctx, tmp_path, options, said):
    """Also where what is given is what would be the default elsewhere."""
    run = ("--methods", "none", "fifo", "--tasks", 1, "--rollouts", 5, "--seed", 7, "--out", tmp_path)
    assert focusctx(*OFFICE, *run)[0] == 0
    code, out, err = focusctx("bench", "run", "--out", tmp_path, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert focusctx("bench", "run", "--out", tmp_path, "--rollouts", 5, "--seed", 7)[0] == 0


def test_a_sweep_prints_what_was_varied(focusctx, tmp_path):
    code, out, _ = focusctx(
        *OFFICE, "--methods", "none", "focus-d", "--budget", 2048, 4096, "--draft", "offline", "scripted",
        "--tasks", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0
    for said in ("by budget", "FOCUS-D (δ = 2,048)", "by draft model", "FOCUS-D (scripted)"):
        assert said in out
    job = json.loads((tmp_path / "run" / "run.json").read_text())["job"]
    assert (job["budgets"], job["drafts"]) == ([2048, 4096], ["offline", "scripted"])


def test_settings_of_methods(focusctx, tmp_path):
    code, _, err = focusctx(
        *OFFICE, "--methods", "focus", "random", "clear-tool-uses", "--draft", "offline", "--tasks", 1,
        "--set", "focus.target=0.33", "focus.levels=false", 'focus.reads=["look"]', "clear-tool-uses.keep=5",
        "tasks=3", "--out", tmp_path,
    )  # fmt: skip
    assert code == 0, err
    records = list(BenchFolder(tmp_path).records)
    expected = {"target": 0.33, "levels": False, "reads": ["look"]}
    assert {record.method: record.settings["method_options"] for record in records} == {
        "focus": expected,
        "random": expected,
        "clear-tool-uses": {"keep": 5},
    }
    assert [record.settings["options"] for record in records] == [{"tasks": "3"}] * 3
    assert focusctx("bench", "run", "--out", tmp_path)[0] == 0
    code, _, err = focusctx(*OFFICE, "--methods", "focus", "--set", "focus.full=1", "--out", tmp_path / "other")
    assert code == 2
    assert "unknown setting 'full'" in err


def test_an_estimate_runs_nothing(focusctx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    code, out, _ = focusctx(
        *OFFICE, "--methods", "none", "focus-d", "--model", "openai:gpt-4.1", "--rollout-mode", "n", "parallel",
        "--repeats", 3, "--estimate",
    )  # fmt: skip
    assert code == 0
    assert "About $" in out
    assert "Nothing was run" in out
    assert out.count("360") == 3  # 120 tasks, three times, under three variants
    assert list(tmp_path.iterdir()) == []


def test_repeats_thresholds_and_modes(focusctx, tmp_path):
    code, out, err = focusctx(
        *OFFICE, "--methods", "none", "focus-d", "--draft", "offline", "--tasks", 2, "--repeats", 2,
        "--threshold", 0.3, 0.6, "--rollout-mode", "sequential", "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0
    assert "12/12 tasks" in err
    for said in ("spread over repeats", "100.0 ± 0.0", "by threshold", "FOCUS-D, sequential (τ = 0.6)"):
        assert said in out
    assert sorted({record.repeat for record in BenchFolder(tmp_path / "run").records}) == [1, 2]


def test_retrieval_uses_a_real_embedder_where_one_is_installed(focusctx, tmp_path):
    installed = find_spec("wordllama") is not None
    code, out, _ = focusctx(*OFFICE, "--methods", "retrieval", "--tasks", 1, "--out", tmp_path / "run")
    assert code == 0
    assert ("Retrieval (wordllama)" if installed else "Retrieval (shared words)") in out
    job = json.loads((tmp_path / "run" / "run.json").read_text())["job"]
    assert job["embedder"] == default_embedder() == ("wordllama" if installed else "words")
    _, out, _ = focusctx(
        *OFFICE, "--methods", "retrieval", "--embedder", "words", "--tasks", 1, "--out", tmp_path / "words"
    )
    assert "Retrieval (shared words)" in out


def test_report(focusctx, tmp_path):
    focusctx(*OFFICE, "--methods", "none", "focus-d", "--tasks", 3, "--out", tmp_path / "run")
    code, out, _ = focusctx("bench", "report", tmp_path / "run")
    assert code == 0
    names = [Path(line).name for line in out.splitlines()]
    assert names[:3] == ["report.md", "report.tex", "report.html"]
    assert all(Path(line).exists() for line in out.splitlines())
    code, out, _ = focusctx("bench", "report", tmp_path / "run", "--format", "markdown", "--out", tmp_path / "there")
    assert code == 0
    assert "| FOCUS-D |" in (tmp_path / "there" / "report.md").read_text()
    assert not (tmp_path / "there" / "report.html").exists()


def test_tasks(focusctx):
    code, out, _ = focusctx("bench", "tasks", "--benchmark", "office", "--set", "tasks=6", "--seed", 5)
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[2] for row in rows] == ["easy", "medium", "hard"] * 2
    assert all(row[0] == "office" for row in rows)
    assert focusctx(*OFFICE, "--methods", "none", "--task", "no-such-task")[0] == 2


def test_only_some_tasks(focusctx, tmp_path):
    _, listed, _ = focusctx("bench", "tasks", "--benchmark", "office")
    ids = [line.split("\t")[1] for line in listed.splitlines()]
    wanted = [ids[0], ids[3]]
    assert focusctx(*OFFICE, "--methods", "none", "--task", *wanted, "--out", tmp_path)[0] == 0
    assert sorted(record.task for record in BenchFolder(tmp_path).records) == sorted(wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("bench", "run"), "name a benchmark: --benchmark office"),
        (("bench", "run", "--benchmark", "kitchen"), "unknown benchmark 'kitchen'"),
        ((*OFFICE, "--methods", "magic"), "unknown method 'magic'"),
        ((*OFFICE, "--methods", "prompting"), "needs a model that writes summaries"),
        ((*OFFICE, "--methods", "none", "--budget", "-1"), "budget must be 0 or more"),
        ((*OFFICE, "--max-cost", "0"), "--max-cost must be above 0"),
        ((*OFFICE, "--set", "nonsense"), "--set needs KEY=VALUE"),
        ((*OFFICE, "--set", "task=3"), "unknown setting 'task' of office; known: tasks"),
        ((*OFFICE, "--split", "train"), "office has no splits"),
        (("bench", "run", "--benchmark", "qa8"), "qa8"),
        (("bench", "report", "/nowhere"), "/nowhere is not a folder"),
    ],
)
def test_what_will_not_do_is_said_in_a_line(focusctx, options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = focusctx(*options)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_help_is_shown_without_a_command(focusctx):
    code, _, err = focusctx("bench")
    assert code == 2
    assert "report" in err


def test_the_help_lists_what_can_be_named(focusctx, capsys):
    with pytest.raises(SystemExit):
        focusctx("bench", "run", "--help")
    told = capsys.readouterr().out
    for name in (*ALL, *NAMES):
        assert name in told


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_tables_are_whole_on_any_terminal(tmp_path, width):
    job = Job(
        benchmarks={"appworld": Options()}, methods=("none", "focus-d"), model="openai:gpt-4.1",
        drafts=("openai:gpt-4.1",),
    )  # fmt: skip
    write_run(tmp_path, job, made, tasks=168, classes=("",))
    written = StringIO()
    print_tables(Console(file=written, width=width), tmp_path)
    lines = written.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "…" not in written.getvalue()
    for heading in ("Accuracy %", "vs. none", "Steps", "Peak", "Dependency", "Tasks"):
        assert heading in written.getvalue()
    assert ("(paper 56)" in written.getvalue()) == (width == 140)
    assert "appworld, agent openai:gpt-4.1" in lines
