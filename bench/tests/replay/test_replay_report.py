"""Tables and pictures of a replay, from records whose numbers are known."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.errors import BenchError
from focusctx.replay.lines import Line, bootstrap, bootstrap_groups, lines_of
from focusctx.replay.record import RunRecord, StepRecord, run_records
from focusctx.types import Usage
from focusctx_bench.replay.judge import PointRecord, point_records
from focusctx_bench.replay.report.document import document
from focusctx_bench.replay.report.tables import (
    Pair,
    against_table,
    others_table,
    pairs,
    paper_table,
    prototype_table,
    sizes_table,
    verdicts,
    walks_table,
)
from focusctx_bench.report.document import Number, Table, render, write_report
from focusctx_bench.report.drawing import count_events, events_per_step

FOCUS = {"rollouts": 3, "threshold": 0.3}
DRAFTED = ("focus-d", "focus")


def a_step(number: int, left: int, there: int, needed: int = 4, due: bool = True) -> StepRecord:
    return StepRecord(number, due, number == 3, 1000, left, 1200, left + 200, needed, there)


def a_run(method: str, run: int, steps: list[StepRecord], file: str = "log.jsonl", draft: str = "offline") -> RunRecord:
    name, _, whose = method.partition("@")
    told = dict(FOCUS) if (whose or name) in DRAFTED else {}
    if name == "retrieval":
        told["embedder"] = "words"
    return RunRecord(
        file=file,
        run=f"run {run}",
        method=method,
        draft=draft if (whose or name) in DRAFTED else "",
        budget=4096,
        settings=told,
        steps=tuple(steps),
        events=1,
        failures=0,
        words_lost=0,
        floored=1 if name == "masking" else 0,
        peak=max(step.sent_tokens for step in steps),
        dependency=1e6 * len(method),
        cost=0.5,
        cost_cached=0.25,
        usage=Usage(),
        seconds=1.0,
    )


def walks(file: str = "log.jsonl") -> list[RunRecord]:
    """Twelve runs of three steps, the first not due. FOCUS has 3 of 4 facts, or 4; newest spans 1 fewer; masking 1
    fewer in every third run at the second step, with the same tokens, and all at the third, with twice as many."""
    found = []
    for run in range(12):
        best = 3 + run % 2
        free = a_step(1, 1000, 0, due=False)
        found += [
            a_run("none", run, [free, a_step(2, 1000, 4), a_step(3, 1000, 4)], file),
            a_run("focus", run, [free, a_step(2, 400, best), a_step(3, 400, best)], file),
            a_run("fifo@focus", run, [free, a_step(2, 420, best - 1), a_step(3, 430, best - 1)], file),
            a_run("retrieval@focus", run, [free, a_step(2, 420, run % 5), a_step(3, 430, 4 - run % 5)], file),
            a_run("masking@focus", run, [free, a_step(2, 400, best - (run % 3 == 0)), a_step(3, 800, 4)], file),
            a_run("masking-3", run, [free, a_step(2, 700, 4), a_step(3, 800, 4)], file),
        ]
    return found


def line(records: list[RunRecord], method: str) -> Line[RunRecord]:
    return next(one for one in lines_of(records) if one.method == method)


def paired(records: list[RunRecord]) -> dict[str, Pair[RunRecord]]:
    return {pair.name: pair for pair in pairs(lines_of(records))}


def cell(table: Table | None, row: str, column: str) -> Number:
    assert table is not None
    place = [one.name for one in table.columns].index(column)
    found = next(one for one in table.rows if one.name == row).cells[place]
    assert isinstance(found, Number)
    return found


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=8))
def test_a_mean_over_groups_is_that_of_all_members_and_lies_in_its_interval(groups: list[list[float]]) -> None:
    found = bootstrap_groups(groups)
    assert found is not None
    every = [number for group in groups for number in group]
    assert found.mean == pytest.approx(fmean(every))
    assert min(every) - 1e-9 <= found.low <= found.high <= max(every) + 1e-9
    assert bootstrap_groups([[group[0]] for group in groups]) == bootstrap([group[0] for group in groups])


def test_groups_that_agree_inside_make_the_interval_wider_than_single_numbers() -> None:
    groups = [[float(number % 2)] * 10 for number in range(20)]
    together, alone = bootstrap_groups(groups), bootstrap_groups([[number] for group in groups for number in group])
    assert together is not None
    assert alone is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert bootstrap_groups([]) is None


def test_recall_is_over_due_steps_and_runs_count_alike() -> None:
    focus = line(walks(), "focus")
    found = focus.mean("recall")
    assert found is not None
    assert found.mean == pytest.approx((0.75 + 1.0) / 2)
    assert found.low < found.mean < found.high
    assert focus.average("span_share") == pytest.approx(0.4)
    table = walks_table(lines_of(walks()))
    assert cell(table, "FOCUS", "Recall %").text == "87.5"
    assert cell(table, "Masking @ FOCUS", "At its least %").text == "50.0"
    assert [row.name for row in table.rows[:3]] == ["No compression", "Masking, M = 3", "FOCUS"]


def test_differences_are_paired() -> None:
    """FOCUS has one fact more than the newest spans in every run: a difference without any spread."""
    newest = paired(walks())["Newest spans"]
    assert newest.recall is not None
    assert newest.recall == pytest.approx((0.25, 0.25, 0.25))
    assert newest.verdict == "above"
    assert newest.more_tokens == pytest.approx(0.025)


def test_masking_is_compared_once_more_where_it_could_go_as_low() -> None:
    found = paired(walks())
    everywhere, within = found["Masking"], found["Masking within reach"]
    assert (everywhere.counted, within.counted) == (1, 0.5)
    assert everywhere.recall is not None
    assert everywhere.recall.mean == pytest.approx(-0.25 / 12)
    assert within.recall is not None
    assert within.recall.mean == pytest.approx(0.25 / 3)
    assert within.more_tokens == 0
    table = against_table(lines_of(walks()), "steps")
    assert cell(table, "FOCUS − Masking", "More tokens for it, points").text == "+20.0"
    assert "Newest spans within reach" not in found


def test_few_runs_make_no_verdict() -> None:
    found = paired([record for record in walks() if record.run in ("run 1", "run 2")])
    assert found["Newest spans"].verdict == "only 2 runs"
    (sentence,) = verdicts([found["Masking"].focus, found["Newest spans"].other])
    assert sentence == "There are too few runs for a verdict on FOCUS."


def test_the_verdict_is_said_in_words() -> None:
    (sentence,) = verdicts(lines_of(walks()))
    assert sentence == (
        "At its share of tokens, FOCUS has a recall above newest spans, retrieval and masking within reach; "
        "not clearly above masking."
    )


def test_a_table_explains_the_columns_it_has_and_no_others() -> None:
    assert "Forgotten" not in walks_table(lines_of(walks())).note
    assert "At its least" in walks_table(lines_of(walks())).note
    rules = [record for record in walks() if "@" not in record.method]
    note = walks_table(lines_of(rules)).note
    assert "At its least" not in note
    assert "X @ FOCUS" not in note
    repeats = [replace(one, steps=(*one.steps[:2], replace(one.steps[2], repeated=True))) for one in rules]
    assert "Forgotten: of the failing calls" in walks_table(lines_of(repeats)).note


def test_comparators_go_with_the_focus_of_their_draft_and_settings() -> None:
    other = [a_run("focus", run, [a_step(2, 300, 2)], draft="tiny") for run in range(12)]
    lines = lines_of([*walks(), *other])
    names = [one.name for one in lines if one.is_focus]
    assert names == ["FOCUS (offline)", "FOCUS (tiny)"]
    assert {pair.focus.draft for pair in pairs(lines)} == {"offline"}


def test_sizes_against_no_compression() -> None:
    table = sizes_table(lines_of(walks()))
    assert [cell(table, "FOCUS", name).text for name in ("tokens", "million")] == ["1,200", "5.00"]
    assert table.rows[0].baseline
    paper = paper_table({"log.jsonl": lines_of(walks())})
    assert cell(paper, "Paper: AppWorld, FOCUS-O", "Peak %").text == "−35"
    assert cell(paper, "log, FOCUS", "Dependency %").text == "+25"


def test_figures_of_others_stand_beside_ours() -> None:
    lines = lines_of(walks("swebench_deepseek.jsonl"))
    table = others_table("swebench_deepseek.jsonl", lines)
    assert table is not None
    told = {row.name: [one.text if isinstance(one, Number) else None for one in row.cells] for row in table.rows}
    assert told["Masking, M = 3"] == ["0.80", "0.43", "1.00", "0.75"]
    assert told["LiteLLM compress"] == ["0.93", "0.80", None, None]
    assert told["FOCUS"] == [None, None, "0.88", "0.40"]
    assert others_table("my-logs.jsonl", lines) is None


def a_point(method: str, number: int, draft: str, there: int, run: int | None = None) -> PointRecord:
    return PointRecord(
        file="log.jsonl", run=f"run {number if run is None else run}", messages=number, method=method,
        draft=draft, budget=4096, settings=FOCUS, event=True, span_tokens=1000, span_left=500, history_tokens=1100,
        sent_tokens=600, needed=4, there=there, words_lost=0, usage=Usage(), seconds=0.1,
    )  # fmt: skip


def test_the_prototype_stands_beside_the_same_events_only() -> None:
    records = [a_point("focus-d", number, "recorded", 3) for number in range(40)]
    table = prototype_table(lines_of(records))
    assert cell(table, "FOCUS-D", "recall").text == "0.89"
    assert table is not None
    assert [one.text for one in table.rows[0].cells if isinstance(one, Number)][3:] == ["0.75", "0.00", "0.50"]
    assert prototype_table(lines_of(records[:39])) is None
    assert prototype_table(lines_of([a_point("focus-d", number, "tiny", 3) for number in range(40)])) is None


def test_points_of_one_run_are_drawn_together() -> None:
    kept = {number: 4 * (number // 10 % 2) for number in range(40)}
    apart = lines_of([a_point("focus-d", number, "x", there) for number, there in kept.items()])[0]
    together = lines_of([a_point("focus-d", number, "x", there, number // 10) for number, there in kept.items()])[0]
    assert (apart.runs, together.runs) == (40, 4)
    wide, narrow = together.mean("recall"), apart.mean("recall")
    assert wide is not None
    assert narrow is not None
    assert wide.mean == narrow.mean == 0.5
    assert wide.high - wide.low > narrow.high - narrow.low


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two files, and the report of them in all forms."""
    made = tmp_path_factory.mktemp("replay")
    run_records(made).add(*[*walks(), *walks("other.jsonl")])
    point_records(made).add(*[a_point("focus-d", number, "recorded", 3) for number in range(5)])
    write_report(document(made), made / "report", tables=True)
    return made


def test_a_report_has_every_form(folder: Path) -> None:
    report = folder / "report"
    written = {path.relative_to(report).as_posix() for path in report.rglob("*.*")}
    assert {"report.md", "report.tex", "report.html", "tables/walks-log-walks.csv"} <= written
    pictures = [f"figures/walks-log-{name}" for name in ("trade-off", "events")]
    assert {f"{picture}.{form}" for picture in pictures for form in ("png", "svg")} <= written
    assert "figures/walks-differences.png" in written
    text = (report / "report.md").read_text()
    assert "## Walks, all files" in text
    assert "## Points, all files" in text
    for path in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (report / path).stat().st_size > 1000


def test_the_same_records_make_the_same_files(folder: Path) -> None:
    for path in write_report(document(folder), folder / "again", ("markdown",), tables=True):
        assert path.read_bytes() == (folder / "report" / path.relative_to(folder / "again")).read_bytes()


def test_csv_has_plain_numbers_and_intervals(folder: Path) -> None:
    with (folder / "report" / "tables" / "walks-log-walks.csv").open() as file:
        rows = {row["Method"]: row for row in csv.DictReader(file)}
    assert float(rows["FOCUS"]["Recall %"]) == 87.5
    assert float(rows["FOCUS"]["Recall % low"]) < 87.5 < float(rows["FOCUS"]["Recall % high"])
    assert float(rows["FOCUS"]["Left: spans %"]) == 40


def test_the_commands_are_code_and_no_warning(folder: Path) -> None:
    command = "focusctx replay run a_log.jsonl"
    told = replace(document(folder), commands=[command])
    page = render(told, "html")
    assert f"<code>{command}</code>" in page
    assert "notice" not in page.partition("<body>")[2]
    assert f"\n`{command}`\n" in render(told, "markdown")
    assert r"\texttt{focusctx replay run a\_log.jsonl}" in render(told, "latex")


def test_the_caption_says_where_a_line_ends(folder: Path) -> None:
    """Twelve runs that get to step 3, four of them to step 4: fewer than five are not drawn."""
    figure = next(one for one in document(folder).sections[1].figures if one.key == "events")
    assert "fewer than five" in figure.note
    every = walks()
    longer = [
        replace(one, steps=(*one.steps, a_step(4, 400, 3)), run=one.run) if number < 4 * 6 else one
        for number, one in enumerate(every)
    ]
    drawn = line(longer, "focus").records.values()
    steps, _ = events_per_step(
        count_events([(step.step, step.event) for step in one.steps] for one in drawn), len(drawn)
    )
    assert steps == [1, 2, 3]


def test_a_folder_without_records(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="contains no records of a replay"):
        document(tmp_path)


@pytest.mark.parametrize("kept", [["none"], ["fifo@focus", "masking@focus"]])
def test_a_report_of_little(tmp_path: Path, kept: list[str]) -> None:
    """One method alone, or comparators whose FOCUS is not there."""
    run_records(tmp_path).add(*[record for record in walks() if record.method in kept])
    assert write_report(document(tmp_path), tmp_path / "report")
