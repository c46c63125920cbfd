"""The paper's tables for one study: main, by difficulty, draft models, N, δ, latency and cost, trajectories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean, stdev
from typing import TypeAlias

from ..metrics import Summary, TaskMetrics, difference, recommended_budget
from ..report.document import Cell, Column, Fields, Number, Row, Table, cell_of, table_of
from .collect import Study, StudyLine, main_lines, paper_figures, same_for_all, value_of, varied_lines

_INTERVALS = "In brackets: where the mean lies with 95 % confidence, by bootstrap over tasks."
_UNITS = "Peak tokens in thousands, dependency in millions, system prompt excluded, cl100k_base."


_PAPER_SCALE = dict.fromkeys(("agent_in", "agent_out", "draft_in", "draft_out"), 1000.0)
"""The paper has these in millions."""
_BUDGETS = (512, 1024, 2048, 4096, 8192, 16384)
CellOf: TypeAlias = Callable[[StudyLine], Cell]

KEYS = ("main", "spread", "difficulty", "draft", "rollouts", "threshold", "budget", "cost", "trajectories", "reach")


def tables(study: Study, keys: Sequence[str] = KEYS) -> list[Table]:
    """Return the tables, of those with these keys, that the study has data for."""
    lines = main_lines(study)
    makers: dict[str, Callable[[], Table | None]] = {
        "main": lambda: _main(study, lines),
        "spread": lambda: _spread(lines),
        "difficulty": lambda: _difficulty(study, lines),
        "draft": lambda: _varied(study, "draft", "The model that sketches plans or writes summaries varies."),
        "rollouts": lambda: _varied(study, "rollouts", "N, the number of sketches per event, varies."),
        "threshold": lambda: _varied(study, "threshold", "τ, the share of sketches that must cite a span, varies."),
        "budget": lambda: _varied(study, "budget", "δ, the tokens above which history is compressed, varies."),
        "cost": lambda: _cost(study, lines),
        "trajectories": lambda: _trajectories(study, lines),
        "reach": lambda: _reach(lines),
    }
    return [table for key in keys if (table := makers[key]()) is not None]


def _main(study: Study, lines: Sequence[StudyLine]) -> Table:
    base = next((line for line in lines if line.method == "none"), None)
    compared = base is not None and len(lines) > 1
    columns = [*_scores(lines), Column("Steps", "less"), Column("Peak", "less"), Column("Dependency", "less")]
    if compared:
        columns.insert(1, Column("vs. none"))
    rows = []
    for line in lines:
        cells = _numbers(study, line, lines)
        if base is not None and compared:
            both = line.tasks.values(), base.tasks.values()
            gained = None if line is base else difference(*both, lambda task: task.success)
            cells.insert(1, cell_of(gained, 1, 100, signed=True))
        rows.append(_row(line, [*cells, f"{line.summary.tasks:,}"]))
    note = f"{_UNITS} {_INTERVALS}"
    if compared:
        note += " Vs. none: the difference in points over the tasks that both have run, paired."
    return Table("main", "Main results", f"{_setting(lines)}{note}", [*columns, Column("Tasks")], rows)


def _spread(lines: Sequence[StudyLine]) -> Table | None:
    """Mean and standard deviation over repeated runs of all tasks, where there were several."""
    repeated = [line for line in lines if len(_whole_repeats(line)) > 1]
    if not repeated:
        return None
    measures = {
        "Accuracy %": ("success", 1, 100.0),
        "Steps": ("steps", 2, 1.0),
        "Peak": ("peak", 2, 1e-3),
        "Dependency": ("dependency", 3, 1e-6),
    }
    rows = []
    for line in repeated:
        runs = _whole_repeats(line)
        cells: list[Cell] = []
        for measure, digits, scale in measures.values():
            means = [scale * fmean(getattr(task, measure) for task in run.values()) for run in runs]
            cells.append(f"{fmean(means):,.{digits}f} ± {stdev(means):,.{digits}f}")
        rows.append(_row(line, [*cells, f"{len(runs)}"]))
    note = (
        "Every repeat runs all tasks with the same settings and seed. Mean of the repeats ± their standard deviation; "
        "the paper gives ± 1.4 points for about 100 tasks."
    )
    return Table("spread", "Spread over repeats", note, [*map(Column, measures), Column("Repeats")], rows)


def _whole_repeats(line: StudyLine) -> list[Mapping[str, TaskMetrics]]:
    """Return the repeats that have all tasks of the line: means over other tasks would not be comparable."""
    return [run for run in line.repeats.values() if run.keys() == line.tasks.keys()]


def _difficulty(study: Study, lines: Sequence[StudyLine]) -> Table | None:
    classes = list(dict.fromkeys(name for line in lines for name in line.classes))
    if len(classes) < 2:
        return None
    counts = {name: max(line.classes[name].tasks for line in lines if name in line.classes) for name in classes}
    columns = [
        Column(
            name,
            "more" if name.startswith("Acc") else "less",
            group=f"{difficulty or 'other'} ({counts[difficulty]:,})",
        )
        for difficulty in classes
        for name in ("Accuracy %", "Peak", "Dependency")
    ]
    rows = []
    for line in lines:
        cells: list[Cell] = []
        for name in classes:
            summary = line.classes.get(name)
            if summary is None:
                cells += [None, None, None]
                continue
            paper = paper_figures(study, line, name)
            cells += [
                cell_of(summary.accuracy, 1, 100, paper=paper.get("accuracy")),
                cell_of(summary.peak.mean, 2, 1e-3, paper=paper.get("peak")),
                Number(summary.dependency.mean / 1e6, 3, paper=paper.get("dependency")),
            ]
        rows.append(_row(line, cells))
    return Table("difficulty", "By difficulty", f"{_UNITS} In brackets: 95 % confidence.", columns, rows)


def _varied(study: Study, setting: str, note: str) -> Table | None:
    lines = varied_lines(study, setting)
    if not lines:
        return None
    columns = [*_scores(lines), Column("Steps", "less"), Column("Peak", "less"), Column("Dependency", "less")]
    columns += [Column("Events per task"), Column("$ per task", "less", optional=True), Column("Tasks")]
    title, symbol = {
        "draft": ("By draft model", ""),
        "rollouts": ("By the number of rollouts", "N = "),
        "threshold": ("By threshold", "τ = "),
        "budget": ("By budget", "δ = "),
    }[setting]
    rows = []
    for line in lines:
        summary, value = line.summary, value_of(line, setting)
        shown = f"{value:,}" if isinstance(value, int | float) else value
        cost = None if summary.cost is None else Number(summary.cost / summary.tasks, 4)
        rest: list[Cell] = [Number(summary.events / summary.tasks, 1), cost, f"{summary.tasks:,}"]
        rows.append(_row(line, [*_numbers(study, line, lines), *rest], name=f"{line.name} ({symbol}{shown})"))
    return Table(setting, title, f"{note} {_UNITS} {_INTERVALS}", columns, rows).without_empty_columns()


def _cost(study: Study, lines: Sequence[StudyLine]) -> Table:
    def each(number: Callable[[Summary], float | None], digits: int, paper: str = "", scale: float = 1.0) -> CellOf:
        """Return the function that makes the cell of a total, per task, beside the paper's."""

        def cell(line: StudyLine) -> Cell:
            total, figure = number(line.summary), paper_figures(study, line).get(paper)
            per_task = None if total is None else total / line.summary.tasks
            beside = None if figure is None else figure * _PAPER_SCALE.get(paper, 1)
            return cell_of(per_task, digits, scale, paper=beside)

        return cell

    def milliseconds(line: StudyLine) -> Cell:
        return cell_of(line.summary.event_seconds, 0, 1e3, paper=paper_figures(study, line).get("event_milliseconds"))

    draft = partial(Column, group="Draft tokens", optional=True)
    dollars = partial(Column, group="Cost $", optional=True)
    event = partial(Column, group="Events", optional=True)
    fields: Fields[StudyLine] = [
        (Column("Seconds", "less"), each(lambda one: one.seconds, 2, "seconds")),
        (Column("In (K)", "less", "Agent tokens"), each(lambda one: one.agent.input_tokens, 2, "agent_in", 1e-3)),
        (Column("Out (K)", "less", "Agent tokens"), each(lambda one: one.agent.output_tokens, 2, "agent_out", 1e-3)),
        (Column("Requests", "less", "Agent tokens"), each(lambda one: one.agent.requests, 1, "agent_requests")),
        (draft("In (K)"), each(lambda one: one.draft.input_tokens, 2, "draft_in", 1e-3)),
        (draft("Out (K)"), each(lambda one: one.draft.output_tokens, 2, "draft_out", 1e-3)),
        (draft("Requests"), each(lambda one: one.draft.requests, 1, "draft_requests")),
        (dollars("Agent", "less"), each(lambda one: one.agent.cost, 4, "agent_cost")),
        (dollars("Draft"), each(lambda one: one.draft.cost, 4, "draft_cost")),
        (dollars("Total", "less"), each(lambda one: one.cost, 4, "cost")),
        (dollars("Agent, billed", "less"), each(lambda one: one.billed, 4)),
        (event("Count"), each(lambda one: one.events, 2, "events")),
        (event("Failed"), each(lambda one: one.failures, 2)),
        (event("ms each"), milliseconds),
    ]
    note = (
        "Per task. Tokens as the provider counts them, system prompt and all, in thousands; costs at list prices, "
        "which know no cache, as in the paper; billed: with the provider's cache prices. Draft: whatever model a "
        "method asks. The paper gives totals: they are divided by its number of tasks."
    )
    return table_of("cost", "Latency, tokens and cost", note, fields, things=lines, row=_row)


def _trajectories(study: Study, lines: Sequence[StudyLine]) -> Table | None:
    line = next((line for line in lines if line.method == "none"), None)
    if line is None:
        return None
    paper = paper_figures(study, line)
    scales = {"steps": (1.0, 1), "peak": (1.0, 0), "cumulative": (1.0, 0), "dependency": (1e6, 2)}
    names = {"steps": "Steps", "peak": "Peak tokens", "cumulative": "Cumulative tokens", "dependency": "Dependency (M)"}
    rows = []
    for key, (scale, digits) in scales.items():
        spread = asdict(line.summary.trajectory[key])
        cells = [Number(value / scale, digits, paper=paper.get(f"{key}_{name}")) for name, value in spread.items()]
        rows.append(Row(names[key], cells))
    columns = [Column(name) for name in ("mean", "median", "p90", "max")]
    return Table("trajectories", "Trajectories without compression", "Per task.", columns, rows, stub="Of a task")


def _reach(lines: Sequence[StudyLine]) -> Table | None:
    """Return the share of tasks that each budget would ever touch, by the sizes of the uncompressed agent."""
    line = next((line for line in lines if line.method == "none"), None)
    if line is None:
        return None
    peaks = [task.peak for task in line.tasks.values()]
    rows = [Row(f"{budget:,}", [Number(100 * fmean(peak > budget for peak in peaks), 1)]) for budget in _BUDGETS]
    note = (
        f"The share of tasks whose history ever exceeds δ without compression. Recommended δ: "
        f"{recommended_budget(peaks):,}, the largest power of two that is at most half the median peak."
    )
    return Table("reach", "How many tasks a budget reaches", note, [Column("Tasks over δ, %")], rows, stub="δ")


def _numbers(study: Study, line: StudyLine, lines: Sequence[StudyLine]) -> list[Cell]:
    """Scores, steps, peak, dependency."""
    summary, paper = line.summary, paper_figures(study, line)
    if _is_qa(lines):
        scores: list[Cell] = [cell_of(summary.details[name], 3, paper=paper.get(name)) for name in ("em", "f1")]
    else:
        scores = [cell_of(summary.accuracy, 1, 100, paper=paper.get("accuracy"))]
    return [
        *scores,
        cell_of(summary.steps, 2, paper=paper.get("steps")),
        cell_of(summary.peak, 2, 1e-3, paper=paper.get("peak")),
        cell_of(summary.dependency, 3, 1e-6, paper=paper.get("dependency")),
    ]


def _scores(lines: Sequence[StudyLine]) -> list[Column]:
    if _is_qa(lines):
        return [Column("EM", "more"), Column("F1", "more")]
    return [Column("Accuracy %", "more")]


def _is_qa(lines: Sequence[StudyLine]) -> bool:
    return all({"em", "f1"} <= line.summary.details.keys() for line in lines)


def _row(line: StudyLine, cells: Sequence[Cell], name: str | None = None) -> Row:
    return Row(name or line.name, cells, ours=line.is_focus, baseline=line.method == "none")


def _setting(lines: Sequence[StudyLine]) -> str:
    budget, rollouts = same_for_all(lines, "budget"), same_for_all(lines, "rollouts")
    drafts = sorted({line.writer for line in lines if line.writer})
    parts = [f"Draft {' and '.join(drafts)}"] if drafts else []
    parts += [f"δ = {budget:,}"] if budget else []
    parts += [f"N = {rollouts}"] if rollouts else []
    return f"{', '.join(parts)}. " if parts else ""
