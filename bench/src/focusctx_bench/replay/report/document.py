"""The report of a replay: everything that a folder holds, walks, points and answers, with its pictures."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from focusctx import __version__
from focusctx.errors import BenchError
from focusctx.replay.lines import Interval, Line, R, by_file, lines_of
from focusctx.replay.record import ReplayFolder, RunRecord, run_records
from focusctx.replay.runs import half_of

from ...report.document import Document, Section, Table, slug
from ...report.drawing import Figure, Runs, Theme, bars, events_figure
from ..agreement.answers import Answer, answer_file
from ..agreement.compare import agreement_against, agreement_figure, agreement_table, recorded_table
from ..judge import PointRecord, point_records
from .tables import (
    FEW,
    against_by_file,
    against_table,
    others_table,
    pairs,
    paper_table,
    points_table,
    prototype_table,
    sizes_table,
    verdicts,
    walks_table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def document(folder: Path) -> Document:
    walks = list(run_records(folder).latest().values())
    points = list(point_records(folder).latest().values())
    sections = [*_walks(walks), *_points(points), *_answers(answer_file(folder))]
    if not sections:
        raise BenchError(f"{folder} contains no records of a replay: make some with `focusctx replay run`")
    runs = {(record.file, record.run) for record in walks} | {(record.file, record.run) for record in points}
    made = f"Made by focusctx {__version__}.{_halves([run for _, run in runs])}"
    commands = ReplayFolder(folder).read_about().get("commands", [])
    told = [f"focusctx {shlex.join(command['arguments'])}" for command in commands]
    return Document("focusctx replay", [made], sections, told)


def _halves(runs: Sequence[str]) -> str:
    """Say which half the runs are of: constants are chosen on the tuning half, figures published from the other."""
    count = Counter(map(half_of, runs))
    if len(count) == 1:
        (half,) = count
        return f" All runs are of the {half} half."
    return f" Of {len(runs)} runs {count['tuning']} are of the tuning half." if runs else ""


def _walks(records: Sequence[RunRecord]) -> list[Section]:
    found = {file: lines_of(some) for file, some in by_file(records).items()}
    if not found:
        return []
    together = lines_of(records, budgets=False)
    sections = []
    if len(found) > 1:
        tables = [against_by_file(found), walks_table(together), sizes_table(together), paper_table(found)]
        pictures = [trade_off(together), differences(found, "steps")]
        facts = f"{_counted(together)} In what is over all files, every run counts once."
        sections.append(_section("walks", "Walks, all files", facts, tables, pictures))
    for file, lines in found.items():
        tables = [against_table(lines, "steps"), walks_table(lines), sizes_table(lines), others_table(file, lines)]
        if len(found) == 1:
            tables.append(paper_table(found))
        facts = " ".join([_counted(lines), _budgets(lines), *verdicts(lines)])
        pictures = [trade_off(lines), events_by_step(lines)]
        sections.append(_section(f"walks {file}", f"Walks, {file}", facts, tables, pictures))
    return sections


def _points(records: Sequence[PointRecord]) -> list[Section]:
    found = {file: lines_of(some) for file, some in by_file(records).items()}
    if not found:
        return []
    together = lines_of(records, budgets=False)
    tables = [against_table(together, "points"), points_table(together), prototype_table(together)]
    facts = " ".join([_counted(together), *verdicts(together)])
    pictures = [trade_off(together), differences(found, "points")]
    sections = [_section("points", "Points, all files", facts, tables, pictures)]
    for file, lines in found.items() if len(found) > 1 else ():
        facts = " ".join([_counted(lines), _budgets(lines), *verdicts(lines)])
        own = [against_table(lines, "points"), points_table(lines)]
        sections.append(_section(f"points {file}", f"Points, {file}", facts, own, [trade_off(lines)]))
    return sections


def _answers(answers: Iterable[Answer]) -> list[Section]:
    models: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        models[answer.model].append(answer)
    sections = []
    for model, some in models.items():
        files = {"all files": some}
        names = sorted({answer.file for answer in some})
        if len(names) > 1:
            files |= {name: [answer for answer in some if answer.file == name] for name in names}
        for name, own in files.items():
            title, facts = f"Next actions of {model}, {name}", f"Points of {', '.join(names)}."
            if name != "all files":
                facts = f"Points of {name}."
            tables = [agreement_table(own), agreement_against(own), recorded_table(own)]
            sections.append(_section(f"agreement {model} {name}", title, facts, tables, [agreement_figure(own)]))
    return [section for section in sections if section.tables]


def _section(
    key: str, title: str, facts: str, tables: Iterable[Table | None], figures: Iterable[Figure | None]
) -> Section:
    """Return a section of the tables and figures that there is something for."""
    return Section(slug(key.removesuffix(".jsonl")), title, facts, [*filter(None, tables)], [*filter(None, figures)])


def _counted(lines: Sequence[Line[R]]) -> str:
    most = max(lines, key=lambda line: len(line.records))
    drafts = sorted({line.draft for line in lines if line.draft})
    points = sum(isinstance(record, PointRecord) for record in most.records.values())
    counted = f"{points:,} points of {most.runs:,} runs." if points else f"{most.runs:,} runs."
    return f"{counted} Draft: {', '.join(drafts)}." if drafts else counted


def _budgets(lines: Sequence[Line[R]]) -> str:
    budgets = sorted({line.budget for line in lines})
    return f"δ = {', '.join(f'{budget:,}' for budget in budgets)}."


class _Look(NamedTuple):
    colour: str
    marker: str
    size: float = 7.0
    hollow: bool = False


_KINDS = {"fifo": (4, "o"), "retrieval": (2, "s"), "masking": (3, "^")}
"""Colour and mark of the rules, whether they go by themselves (hollow) or get FOCUS's tokens (filled)."""
_MASKS = ("masking-10", "masking-5", "masking-3")
_MASKING = "Masking, M = 10, 5, 3"
_FOCUS = {"focus": (1, "*", 15.0), "focus-d": (0, "D", 8.0), "focus-o": (6, "d", 9.0)}


def trade_off(lines: Sequence[Line[R]]) -> Figure | None:
    """Draw every method: what it leaves, and what of the needed facts is in that."""
    places = [(line, line.mean("span_share"), line.mean("recall")) for line in lines]
    drawn = [(line, x, y) for line, x, y in places if x is not None and y is not None]
    if len(drawn) < 2:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        masks = sorted((100 * x.mean, 100 * y.mean) for line, x, y in drawn if line.method in _MASKS)
        if len(masks) > 1:
            axes.plot(*zip(*masks, strict=True), color=theme.colours[3], linewidth=1, linestyle=":", zorder=1)
        for line, x, y in drawn:
            _mark(axes, theme, line, x, y)
        lowest = min(y.low for _, _, y in drawn)
        axes.set_xlim(max(0.0, 100 * min(x.low for _, x, _ in drawn) - 6), 104)
        axes.set_ylim(max(0.0, 100 * lowest - 4), 103)
        axes.set_xlabel("tokens of spans left (%)")
        axes.set_ylabel("evidence recall (%)")
        handles, labels = axes.get_legend_handles_labels()
        named = sorted(zip(_groups(drawn), handles, labels, strict=True), key=lambda entry: entry[0])
        axes.legend(
            [handle for _, handle, _ in named], [label for *_, label in named],
            fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.75,
        )  # fmt: skip

    note = (
        "Further left is cheaper, further up is better. Filled marks got FOCUS's share of tokens, pale ones that of "
        "FOCUS-D; hollow ones have their own settings. Bars: 95 % confidence, by bootstrap over runs."
    )
    return Figure("trade-off", "Evidence recall against tokens left", note, draw, height=4.6)


def _groups(drawn: Sequence[tuple[Line[R], Interval, Interval]]) -> list[int]:
    """Return the place of each line in the legend: the shipped FOCUS and its comparators first, rules last."""
    heads = ["focus", "focus-d", "focus-o"]
    leads = [line.matched or line.method for line, _, _ in drawn if line.method not in _MASKS[1:]]
    return [heads.index(lead) if lead in heads else len(heads) for lead in leads]


def _mark(axes: Axes, theme: Theme, line: Line[R], x: Interval, y: Interval) -> None:
    look = _look(line, theme)
    axes.errorbar(
        100 * x.mean,
        100 * y.mean,
        xerr=bars([x], 100),
        yerr=bars([y], 100),
        color=look.colour,
        marker=look.marker,
        markersize=look.size,
        markerfacecolor=theme.ground if look.hollow else look.colour,
        markeredgewidth=0.8 if line.is_focus else 1.3,
        markeredgecolor=theme.ground if line.is_focus else look.colour,
        linestyle="none",
        elinewidth=1.4 if line.is_focus else 0.8,
        zorder=4 if line.is_focus else 3 if line.matched else 2,
        label=None if line.method in _MASKS[1:] else _MASKING if line.method in _MASKS else line.name,
    )
    if line.method in _MASKS:
        number = line.method.partition("-")[2]
        place = (100 * x.mean, 100 * y.mean)
        axes.annotate(number, place, xytext=(5, -11), textcoords="offset points", fontsize=8, color=look.colour)


def _look(line: Line[R], theme: Theme) -> _Look:
    if line.method in _FOCUS:
        place, marker, size = _FOCUS[line.method]
        return _Look(theme.colours[place], marker, size)
    kind = line.method.partition("@")[0].partition("-")[0]
    if kind in _KINDS:
        place, marker = _KINDS[kind]
        colour = theme.colours[place]
        if line.matched not in ("", "focus"):  # half way to the ground; both are written #rrggbb
            parts = [(int(colour[at : at + 2], 16), int(theme.ground[at : at + 2], 16)) for at in (1, 3, 5)]
            colour = "#" + "".join(f"{round(0.5 * one + 0.5 * other):02x}" for one, other in parts)
        return _Look(colour, marker, 6.5, hollow=not line.matched)
    return _Look(theme.soft, "X" if line.method == "oracle" else "P", 7.0)


def differences(found: Mapping[str, Sequence[Line[R]]], over: str) -> Figure | None:
    """Draw FOCUS minus each comparator with the same share of tokens, for every file."""
    # The shipped FOCUS, where it was replayed.
    methods = {line.method for lines in found.values() for line in lines}
    shown = next((name for name in ("focus", "focus-d", "focus-o") if name in methods), "")
    rows = [(file, pair) for file, lines in found.items() for pair in pairs(lines) if pair.focus.method == shown]
    if not rows:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        at, ticks, names = 0.0, [], []
        heads: dict[str, float] = {}
        for file, pair in rows:
            assert pair.recall is not None
            head = f"{file.removesuffix('.jsonl')}{f' ({pair.focus.detail})' if pair.focus.detail else ''}"
            if head not in heads:
                at += 1.2 if heads else 0.6
                heads[head] = at - 0.95
            mean, low, high = (100 * number for number in pair.recall)
            colour = {"above": theme.colours[2], "below": theme.colours[1]}.get(pair.verdict, theme.soft)
            axes.errorbar(
                mean, at, xerr=[[mean - low], [high - mean]],
                color=colour, marker=_look(pair.other, theme).marker, markersize=6.5, capsize=2.5, elinewidth=1.4,
                markerfacecolor=colour if pair.is_everywhere else theme.ground,
            )  # fmt: skip
            ticks.append(at)
            names.append(pair.name.lower())
            at += 1
        axes.axvline(0, color=theme.ink, linewidth=1)
        axes.set_yticks(ticks, names, fontsize=8.5)
        axes.set_ylim(at - 0.3, -0.8)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("difference in evidence recall (points)")
        for head, place in heads.items():
            axes.annotate(
                head, (0, place), xycoords=("axes fraction", "data"), xytext=(-8, 0), textcoords="offset points",
                ha="right", va="center", fontsize=9, fontweight="bold", color=theme.ink,
            )  # fmt: skip

    name = rows[0][1].focus.name.partition(" (")[0]
    note = (
        f"{name} minus the method that got the same share of tokens, paired over {over}: right of the line {name} is "
        "better. Within reach: where masking has at most a tenth more tokens. Grey: the 95 % interval, by bootstrap "
        f"over runs, holds zero, or there are fewer than {FEW} runs."
    )
    heads = len({file for file, _ in rows})
    return Figure(
        "differences", f"{name} against the same share of tokens", note, draw, height=1 + 0.24 * len(rows) + 0.3 * heads
    )


def events_by_step(lines: Sequence[Line[RunRecord]]) -> Figure | None:
    """Draw how often a run that got to a step was compressed there."""
    shown = [line for line in lines if line.is_focus and any(record.events for record in line.records.values())]

    def drawn(theme: Theme) -> Iterator[tuple[Runs, Mapping[str, Any]]]:
        for line in shown:
            look = _look(line, theme)
            runs = ([(step.step, step.event) for step in record.steps] for record in line.records.values())
            own = {"color": look.colour, "marker": look.marker, "markersize": 0.6 * look.size}
            yield runs, {**own, "label": line.name}

    return events_figure("events", "Compression events by step", drawn) if shown else None
