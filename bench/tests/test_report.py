"""Reports of records with known numbers, in every form."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench_helpers.made_jobs import office
from bench_helpers.reported import plain, step, write_run
from focusctx.errors import BenchError
from focusctx_bench.job import Job, TaskItem
from focusctx_bench.protocols import Options
from focusctx_bench.report.document import Column, Number, Row, Table, render, write_report
from focusctx_bench.report.drawing import drawn
from focusctx_bench.results.collect import Study, collect
from focusctx_bench.results.document import document
from focusctx_bench.results.tables import tables


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path / "run", office(4, ["none", "focus-d"]), plain)
    return tmp_path / "run"


def cells(study: Study, key: str, row: int) -> dict[str, Any]:
    (table,) = tables(study, [key])
    return {
        f"{column.group} {column.name}".strip(): cell
        for column, cell in zip(table.columns, table.rows[row].cells, strict=True)
    }


def values(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(cell.value, 6) for name, cell in found.items() if isinstance(cell, Number)}


def test_the_main_table(run: Path) -> None:
    (study,) = collect(run)
    assert (study.planned, study.model) == (4, "scripted:office")
    none, focus = cells(study, "main", 0), cells(study, "main", 1)
    assert values(none) == {"Accuracy %": 75.0, "Steps": 2.0, "Peak": 8.0, "Dependency": 0.62}
    # (n_i + 2·100)·100/2 over 3,000, 4,000 and 3,500
    assert values(focus) == {"Accuracy %": 50.0, "vs. none": -25.0, "Steps": 3.0, "Peak": 4.0, "Dependency": 0.555}
    assert focus["vs. none"].text == "−25.0"
    assert (none["Accuracy %"].low, none["Accuracy %"].high) == (25.0, 100.0)
    assert none["Steps"].interval == "2.00, 2.00"
    assert none["Tasks"] == "4"


def test_by_difficulty(run: Path) -> None:
    (study,) = collect(run)
    assert values(cells(study, "difficulty", 0)) == {
        "easy (2) Accuracy %": 100.0, "easy (2) Peak": 8.0, "easy (2) Dependency": 0.62,
        "hard (2) Accuracy %": 50.0, "hard (2) Peak": 8.0, "hard (2) Dependency": 0.62,
    }  # fmt: skip


def test_latency_and_cost_per_task(run: Path) -> None:
    (study,) = collect(run)
    assert values(cells(study, "cost", 1)) == {
        "Seconds": 10.0, "Agent tokens In (K)": 12.0, "Agent tokens Out (K)": 0.3, "Agent tokens Requests": 3.0,
        "Draft tokens In (K)": 3.0, "Draft tokens Out (K)": 0.1, "Draft tokens Requests": 3.0, "Cost $ Agent": 0.03,
        "Cost $ Draft": 0.002, "Cost $ Total": 0.032, "Cost $ Agent, billed": 0.015, "Events Count": 1.0,
        "Events ms each": 2000.0,
    }  # fmt: skip


def test_trajectories(run: Path) -> None:
    (study,) = collect(run)
    assert values(cells(study, "trajectories", 2)) == {
        "mean": 12000.0,
        "median": 12000.0,
        "p90": 12000.0,
        "max": 12000.0,
    }


def test_questions_have_exact_match_and_f1(tmp_path: Path) -> None:
    job = Job(benchmarks={"qa8": Options()}, methods=("none",))
    write_run(tmp_path, job, lambda _, number: (0.5, (step(100),), {"em": 0.25 * number, "f1": 0.5}), classes=("",))
    (study,) = collect(tmp_path)
    found = cells(study, "main", 0)
    assert values({name: found[name] for name in ("EM", "F1")}) == {"EM": 0.375, "F1": 0.5}
    assert "Accuracy %" not in found


def sweep(folder: Path) -> Study:
    job = office(4, ["none", "focus-o", "focus-d"], budgets=(2048, 4096), rollouts=(1, 3), drafts=("a", "b"))
    write_run(folder, job, plain)
    (study,) = collect(folder)
    return study


def test_a_setting_is_varied_with_the_others_fixed(tmp_path: Path) -> None:
    study = sweep(tmp_path)
    names = {table.key: [row.name for row in table.rows] for table in tables(study)}
    assert names["main"] == ["No compression", "FOCUS-O", "FOCUS-D"]
    assert names["draft"] == ["FOCUS-O (a)", "FOCUS-O (b)", "FOCUS-D (a)", "FOCUS-D (b)"]
    assert names["rollouts"] == ["FOCUS-O (N = 1)", "FOCUS-O (N = 3)", "FOCUS-D (N = 1)", "FOCUS-D (N = 3)"]
    assert names["budget"][:2] == ["FOCUS-O (δ = 2,048)", "FOCUS-O (δ = 4,096)"]
    (main,) = tables(study, ["main"])
    assert main.note.startswith("Draft a, δ = 4,096, N = 3. ")


def test_runs_below_a_folder_come_together(tmp_path: Path) -> None:
    for budget in (1024, 4096):
        write_run(tmp_path / str(budget), office(4, ["none", "focus-d"], budgets=(budget,)), plain)
    (study,) = collect(tmp_path)
    assert [row.name for row in tables(study, ["budget"])[0].rows] == ["FOCUS-D (δ = 1,024)", "FOCUS-D (δ = 4,096)"]
    assert study.lines[0].summary.tasks == 4  # both runs have it without compression


def test_other_seeds_and_splits_are_other_studies(tmp_path: Path) -> None:
    job = office(4, ["none"])
    for seed in (1, 2):
        write_run(tmp_path / str(seed), replace(job, seed=seed), plain)
    split = {"office": Options(split="dev")}
    write_run(tmp_path / "dev", replace(job, benchmarks=split), plain)
    assert len(collect(tmp_path)) == 3


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    def half(item: TaskItem, number: int) -> Any:
        return plain(item, number) if number < 3 else None

    write_run(tmp_path / "run", office(4, ["none", "fifo"]), half)
    assert "2 tasks have no record" in document(tmp_path).notices[0]
    with pytest.raises(BenchError, match="not a folder"):
        document(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BenchError, match=r"no run.json"):
        document(tmp_path / "empty")
    write_run(tmp_path / "none", office(4, ["none"]), lambda *_: None)
    with pytest.raises(BenchError, match="no finished task"):
        document(tmp_path / "none")


def test_the_best_of_a_column() -> None:
    rows = [
        Row("base", [Number(99.0), Number(0.1)], baseline=True),
        Row("a", [Number(50.001), Number(3.0)]),
        Row("b", [Number(50.0), None]),
        Row("c", [Number(20.0), Number(9.0)]),
    ]
    table = Table("k", "t", "n", [Column("up", "more"), Column("down", "less"), Column("none")][:2], rows)
    assert table.best() == {(1, 0), (2, 0), (1, 1)}  # what reads the same is the same


@pytest.mark.parametrize(
    ("number", "text"),
    [(Number(1234.567), "1,234.57"), (Number(-0.001, 1, signed=True), "0.0"), (Number(2.5, 1, signed=True), "+2.5")],
)
def test_numbers_as_text(number: Number, text: str) -> None:
    assert number.text == text


def test_markdown(run: Path) -> None:
    text = render(document(run), "markdown")
    assert "| FOCUS-D | 50.0 [0.0, 100.0] | −25.0 [−75.0, 0.0] | 3.00 [3.00, 3.00] | 4.00 [4.00, 4.00] |" in text
    assert "says nothing about language models" in text
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.replace("\\|", "").count("|") for line in lines.splitlines()}) == 1


EVIL = 'a|b <script>alert(1)</script> & 100% _x_ {y} \\end{table} "q" 🦊'


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """Names that users make up stand in every form as text."""
    job = office(4, ["none", "focus-d"], model=EVIL, drafts=(EVIL, "b"))
    write_run(tmp_path / "evil", job, plain, classes=(EVIL, "hard"))
    return tmp_path / "evil"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_file_that_needs_nothing(run: Path, evil: Path) -> None:
    for folder in (run, evil):
        text = render(document(folder), "html")
        parsed = _Page()
        parsed.feed(text)
        assert parsed.open == []
        assert not any(tag in ("script", "link", "iframe") for tag, _ in parsed.tags)
        for _, attributes in parsed.tags:
            for name in ("src", "srcset", "href"):
                assert (attributes.get(name) or "#").startswith(("#", "data:image/svg+xml;base64,"))
        identifiers = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
        assert len(set(identifiers)) == len(identifiers)
        assert "url(" not in text
        assert "@import" not in text
        assert "prefers-color-scheme: dark" in text


def test_latex_is_whole(run: Path, evil: Path) -> None:
    for folder in (run, evil):
        text = render(document(folder), "latex")
        begun = re.findall(r"\\(begin|end)\{(\w+)\}", text.partition(r"\begin{document}")[2])
        open_ = ["document"]
        for what, name in begun:
            if what == "begin":
                open_.append(name)
            else:
                assert open_.pop() == name
        assert open_ == []
        for tabular in re.findall(r"\\begin\{tabular\}\{(l r*|lr*)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
            width = len(tabular[0])
            for line in tabular[1].splitlines():
                if line.endswith(r"\\"):
                    spans = [int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
                    assert len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans) == width
        assert text.isascii() or set(re.findall(r"[^\x00-\x7f]", text)) <= set("×é")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_latex_compiles(run: Path, evil: Path, tmp_path: Path) -> None:
    for number, folder in enumerate((run, evil)):
        target = tmp_path / f"tex {number}"
        write_report(document(folder), target, ["latex"])
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        assert (target / "report.pdf").exists()


def test_figures(tmp_path: Path) -> None:
    sweep(tmp_path / "run")
    (section,) = document(tmp_path).sections
    assert [figure.key for figure in section.figures] == ["trade-off", "drafts", "events", "cost"]
    assert "fewer than a tenth of them did, or fewer than five" in section.figures[2].note
    assert section.figures[3].title == "Cost per task"
    written = write_report(document(tmp_path), tmp_path / "report", ("markdown",))
    paths = [path for path in written if path.parent.name == "figures"]
    assert len(paths) == 8
    for path in paths:
        data = path.read_bytes()
        if path.suffix == ".svg":
            assert ET.fromstring(data).tag.endswith("svg")
        else:
            assert data.startswith(b"\x89PNG")
    again = write_report(document(tmp_path), tmp_path / "again", ("markdown",))
    for one, other in zip(written, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    for path in re.findall(r"!\[.*\]\((.*)\)", (tmp_path / "report" / "report.md").read_text()):
        assert (tmp_path / "report" / path).exists()


def test_without_prices_the_bars_are_tokens(tmp_path: Path) -> None:
    def free(item: TaskItem, number: int) -> Any:
        success, steps, details = plain(item, number)
        return success, tuple(replace(one, usage=replace(one.usage, cost=None), event=None) for one in steps), details

    write_run(tmp_path, office(4, ["none", "fifo"]), free)
    (section,) = document(tmp_path).sections
    assert [figure.title for figure in section.figures] == ["Accuracy against peak tokens", "Tokens per task"]


def test_a_row_without_a_price_says_so_and_the_others_keep_their_dollars(tmp_path: Path) -> None:
    def unpriced(item: TaskItem, number: int) -> Any:
        success, steps, details = plain(item, number)
        if item.variant.method == "fifo":
            steps = tuple(replace(one, usage=replace(one.usage, cost=None)) for one in steps)
        return success, steps, details

    write_run(tmp_path, office(4, ["none", "fifo", "focus-d"]), unpriced)
    (section,) = document(tmp_path).sections
    cost = section.figures[-1]
    assert (cost.title, cost.note) == ("Cost per task", "Rows without a bar ask a model whose price is not known.")
    shown = re.findall(r"<!-- (.*?) -->", drawn(cost).decode())
    assert "no price" in shown
    assert [word for word in shown if word.startswith("$")] == ["$0.020", "$0.032"]


def test_repeats_have_their_spread_and_count_once(tmp_path: Path) -> None:
    def made(item: TaskItem, number: int) -> Any:
        success, steps, details = plain(item, number)
        return success if item.repeat < 3 else 0.0, steps, details

    write_run(tmp_path, office(4, ["none", "focus-d"], repeats=3), made)
    (study,) = collect(tmp_path)
    none = cells(study, "main", 0)
    assert none["Tasks"] == "4"
    assert values(none)["Accuracy %"] == 50.0  # of 75, 75 and 0
    spread = cells(study, "spread", 0)
    assert (spread["Accuracy %"], spread["Repeats"]) == ("50.0 ± 43.3", "3")
    assert cells(study, "cost", 0)["Agent tokens Requests"].value == 2.0  # of one run, not of three
    assert values(cells(study, "trajectories", 1)) == {"mean": 8000, "median": 8000, "p90": 8000, "max": 8000}


def test_a_repeat_that_is_not_whole_has_no_part_in_the_spread(tmp_path: Path) -> None:
    write_run(
        tmp_path,
        office(4, ["none"], repeats=2),
        lambda item, number: None if (item.repeat, number) == (2, 3) else plain(item, number),
    )
    (study,) = collect(tmp_path)
    assert tables(study, ["spread"]) == []


def test_the_budget_that_sizes_recommend(run: Path) -> None:
    (study,) = collect(run)
    (table,) = tables(study, ["reach"])
    assert "Recommended δ: 2,048" in table.note  # all peaks are 8,000
    found = {row.name: row.cells[0].text for row in table.rows if isinstance(row.cells[0], Number)}
    assert (found["4,096"], found["8,192"]) == ("100.0", "0.0")


def test_thresholds_and_rollout_modes_are_told_apart(tmp_path: Path) -> None:
    job = office(4, ["focus-d"], thresholds=(0.3, 0.6), rollout_modes=("parallel", "sequential"))
    write_run(tmp_path, job, plain)
    (study,) = collect(tmp_path)
    (table,) = tables(study, ["main"])
    assert [row.name for row in table.rows] == ["FOCUS-D, parallel", "FOCUS-D, sequential"]
    (swept,) = tables(study, ["threshold"])
    assert "FOCUS-D, parallel (τ = 0.6)" in [row.name for row in swept.rows]
