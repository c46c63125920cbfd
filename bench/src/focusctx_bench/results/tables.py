"""The paper's tables for one study: main, by difficulty, draft models, N, δ, latency and cost, trajectories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..metrics import Summary, difference
from ..report.table import Cell, Column, Number, Row, Table, cell_of
from .choose import main_lines, same_for_all, value_of, varied_lines
from .collect import Line, Study
from .paper import paper_figures

_INTERVALS = "In brackets: where the mean lies with 95 % confidence, by bootstrap over tasks."
_UNITS = "Peak tokens in thousands, dependency in millions, system prompt excluded, cl100k_base."


KEYS = ("main", "difficulty", "draft", "rollouts", "budget", "cost", "trajectories")


def tables(study: Study, keys: Sequence[str] = KEYS) -> list[Table]:
    """Return the tables, of those with these keys, that the study has data for."""
    lines = main_lines(study)
    makers: dict[str, Callable[[], Table | None]] = {
        "main": lambda: _main(study, lines),
        "difficulty": lambda: _difficulty(study, lines),
        "draft": lambda: _varied(study, "draft", "The model that sketches plans or writes summaries varies."),
        "rollouts": lambda: _varied(study, "rollouts", "N, the number of sketches per event, varies."),
        "budget": lambda: _varied(study, "budget", "δ, the tokens above which history is compressed, varies."),
        "cost": lambda: _cost(study, lines),
        "trajectories": lambda: _trajectories(study, lines),
    }
    return [table for key in keys if (table := makers[key]()) is not None]


def _main(study: Study, lines: Sequence[Line]) -> Table:
    base = next((line for line in lines if line.method == "none"), None)
    compared = base is not None and len(lines) > 1
    columns = [*_scores(lines), Column("Steps", "less"), Column("Peak", "less"), Column("Dependency", "less")]
    if compared:
        columns.insert(1, Column("vs. none"))
    rows = []
    for line in lines:
        cells = _numbers(study, line, lines)
        if base is not None and compared:
            cells.insert(1, None if line is base else _against(line, base))
        rows.append(_row(line, [*cells, f"{line.summary.tasks:,}"]))
    note = f"{_UNITS} {_INTERVALS}"
    if compared:
        note += " Vs. none: the difference in points over the tasks that both have run, paired."
    return Table("main", "Main results", f"{_setting(lines)}{note}", [*columns, Column("Tasks")], rows)


def _difficulty(study: Study, lines: Sequence[Line]) -> Table | None:
    classes = list(dict.fromkeys(name for line in lines for name in line.classes))
    if len(classes) < 2:
        return None
    columns = [
        Column(name, "more" if name.startswith("Acc") else "less", group=_class_name(lines, difficulty))
        for difficulty in classes
        for name in ("Accuracy %", "Peak", "Dependency")
    ]
    rows = []
    for line in lines:
        cells: list[Cell] = []
        for name in classes:
            summary = line.classes.get(name)
            cells += _three(summary, paper_figures(study, line, name)) if summary else [None, None, None]
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
        "budget": ("By budget", "δ = "),
    }[setting]
    rows = []
    for line in lines:
        summary, value = line.summary, value_of(line, setting)
        shown = f"{value:,}" if isinstance(value, int) else value
        cost = None if summary.cost is None else Number(summary.cost / summary.tasks, 4)
        rest: list[Cell] = [Number(summary.events / summary.tasks, 1), cost, f"{summary.tasks:,}"]
        rows.append(_row(line, [*_numbers(study, line, lines), *rest], name=f"{line.name} ({symbol}{shown})"))
    return Table(setting, title, f"{note} {_UNITS} {_INTERVALS}", columns, rows).without_empty_columns()


def _cost(study: Study, lines: Sequence[Line]) -> Table:
    columns = [
        Column("Seconds", "less"),
        Column("In (K)", "less", "Agent tokens"),
        Column("Out (K)", "less", "Agent tokens"),
        Column("Requests", "less", "Agent tokens"),
        Column("In (K)", None, "Draft tokens", optional=True),
        Column("Out (K)", None, "Draft tokens", optional=True),
        Column("Requests", None, "Draft tokens", optional=True),
        Column("Agent", "less", "Cost $", optional=True),
        Column("Draft", None, "Cost $", optional=True),
        Column("Total", "less", "Cost $", optional=True),
        Column("Agent, billed", "less", "Cost $", optional=True),
        Column("Count", None, "Events", optional=True),
        Column("Failed", None, "Events", optional=True),
        Column("ms each", None, "Events", optional=True),
    ]
    rows = [_row(line, _cost_cells(line.summary, paper_figures(study, line))) for line in lines]
    note = (
        "Per task. Tokens as the provider counts them, system prompt and all, in thousands; costs at list prices, "
        "which know no cache, as in the paper; billed: with the provider's cache prices. Draft: whatever model a "
        "method asks. The paper gives totals: they are divided by its number of tasks."
    )
    return Table("cost", "Latency, tokens and cost", note, columns, rows).without_empty_columns()


def _cost_cells(summary: Summary, paper: Mapping[str, float]) -> list[Cell]:
    tasks, each = summary.tasks, summary.event_seconds

    def tokens(count: int, name: str) -> Number:
        total = paper.get(name)
        return Number(count / tasks / 1e3, 2, paper=None if total is None else 1e3 * total)

    def money(cost: float | None, name: str = "") -> Cell:
        return None if cost is None else Number(cost / tasks, 4, paper=paper.get(name))

    return [
        Number(summary.seconds_per_task, 2, paper=paper.get("seconds")),
        tokens(summary.agent.input_tokens, "agent_in"),
        tokens(summary.agent.output_tokens, "agent_out"),
        Number(summary.agent.requests / tasks, 1, paper=paper.get("agent_requests")),
        tokens(summary.draft.input_tokens, "draft_in"),
        tokens(summary.draft.output_tokens, "draft_out"),
        Number(summary.draft.requests / tasks, 1, paper=paper.get("draft_requests")),
        money(summary.agent.cost, "agent_cost"),
        money(summary.draft.cost, "draft_cost"),
        money(summary.cost, "cost"),
        money(summary.billed),
        Number(summary.events / tasks, 2, paper=paper.get("events")),
        Number(summary.failures / tasks, 2),
        None if each is None else Number(1e3 * each, 0, paper=paper.get("event_milliseconds")),
    ]


def _trajectories(study: Study, lines: Sequence[Line]) -> Table | None:
    line = next((line for line in lines if line.method == "none"), None)
    if line is None:
        return None
    paper = paper_figures(study, line)
    scales = {"steps": (1.0, 1), "peak": (1.0, 0), "cumulative": (1.0, 0), "dependency": (1e6, 2)}
    names = {
        "steps": "Steps",
        "peak": "Peak tokens",
        "cumulative": "Cumulative tokens",
        "dependency": "Dependency (M)",
    }
    rows = []
    for key, (scale, digits) in scales.items():
        spread = line.summary.trajectory[key]._asdict()
        cells = [Number(value / scale, digits, paper=paper.get(f"{key}_{name}")) for name, value in spread.items()]
        rows.append(Row(names[key], cells))
    columns = [Column(name) for name in ("mean", "median", "p90", "max")]
    return Table("trajectories", "Trajectories without compression", "Per task.", columns, rows, stub="Of a task")


def _numbers(study: Study, line: Line, lines: Sequence[Line]) -> list[Cell]:
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


def _three(summary: Summary, paper: Mapping[str, float]) -> list[Cell]:
    return [
        cell_of(summary.accuracy, 1, 100, paper=paper.get("accuracy")),
        cell_of(summary.peak.mean, 2, 1e-3, paper=paper.get("peak")),
        Number(summary.dependency.mean / 1e6, 3, paper=paper.get("dependency")),
    ]


def _scores(lines: Sequence[Line]) -> list[Column]:
    if _is_qa(lines):
        return [Column("EM", "more"), Column("F1", "more")]
    return [Column("Accuracy %", "more")]


def _is_qa(lines: Sequence[Line]) -> bool:
    return all({"em", "f1"} <= line.summary.details.keys() for line in lines)


def _against(line: Line, base: Line) -> Cell:
    return cell_of(difference(line.tasks.values(), base.tasks.values(), lambda task: task.success), 1, 100, signed=True)


def _row(line: Line, cells: Sequence[Cell], name: str | None = None) -> Row:
    return Row(name or line.name, cells, ours=line.is_focus, baseline=line.method == "none")


def _class_name(lines: Sequence[Line], difficulty: str) -> str:
    tasks = max(line.classes[difficulty].tasks for line in lines if difficulty in line.classes)
    return f"{difficulty or 'other'} ({tasks:,})"


def _setting(lines: Sequence[Line]) -> str:
    budget, rollouts = same_for_all(lines, "budget"), same_for_all(lines, "rollouts")
    drafts = sorted({line.writer for line in lines if line.writer})
    told = [f"Draft {' and '.join(drafts)}"] if drafts else []
    told += [f"δ = {budget:,}"] if budget else []
    told += [f"N = {rollouts}"] if rollouts else []
    return f"{', '.join(told)}. " if told else ""
