"""The tables of a replay: walks, points, FOCUS beside the comparators that got its share of tokens, and others'
figures.

Masking keeps every thought and action, so at many steps it has far more tokens than FOCUS left, and a comparison
over all steps is none at the same share. It is therefore made twice: over all, and within masking's reach, which is
where it has at most a tenth more tokens than FOCUS. Figures of others (`reference.toml`) are from other methods on
such runs, a first prototype, and the paper.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Generic

from focusctx.replay.lines import Interval, Line, R, method_name
from focusctx.replay.record import ReplayRecord, RunRecord

from ...report.document import Cell, Column, Fields, Number, Row, Table, cell_of, listed, table_of
from ..judge import PointRecord

FEW = 5
"""Runs below which an interval by bootstrap says nothing."""
_REACH = 1.1
_INTERVALS = "In brackets: where the mean lies with 95 % confidence, by bootstrap over runs."
_MATCHED = "X @ FOCUS: at every due step X had as many tokens of spans as FOCUS left there, give or take a span."
_AGAINST = (
    "Each comparator had as many tokens of spans as FOCUS left: the span across the line is kept as often as the part "
    "of it that fits says. Masking cannot go below its thoughts and actions: “within reach” counts only where it has "
    "at most a tenth more tokens than FOCUS."
)
_SAID = {"above": "above", "no clear difference": "not clearly above", "below": "below"}
_REPEATED = "Failed calls repeated"
_LEFT = "Left: the share of the tokens of spans, and of the whole history, that was sent."


def walks_table(lines: Sequence[Line[RunRecord]]) -> Table:
    repeats = any(line.total("repeated") for line in lines)
    fields: Fields[Line[RunRecord]] = [
        (Column("Recall %", "more"), lambda line: cell_of(line.mean("recall"), 1, 100)),
        (Column("Supported %", "more"), lambda line: cell_of(line.mean("whole"), 1, 100)),
        *_left(),
        (Column("Events"), lambda line: cell_of(line.average("events"), 1)),
        (Column("Forgotten", None, _REPEATED, optional=not repeats), lambda line: Number(line.total("forgotten"), 0)),
        (Column("of", None, _REPEATED, optional=not repeats), lambda line: Number(line.total("repeated"), 0)),
        (Column("Words lost", "less"), lambda line: Number(line.total("words_lost"), 0)),
        (Column("Failed", "less", "Events", optional=True), lambda line: Number(line.total("failures"), 0)),
        (Column("At its least %", optional=True), lambda line: cell_of(line.average("floored_share"), 1, 100)),
        (Column("Runs"), lambda line: f"{line.runs:,}"),
    ]
    note = (
        "Over the steps at which the full history is over δ. Recall: of the facts that an action used and only past "
        "spans had given, the share in what would have been sent. Supported: of the actions with such facts, those "
        f"that had all. {_LEFT} Events: compressions a run."
    )
    table = table_of("walks", "Evidence recall, step by step", note, fields, things=lines, row=_row)
    forgotten = "Forgotten: of the failing calls that were made again word for word, those whose failure was gone."
    least = "At its least: due steps at which masking could not go as low as FOCUS."
    return _explained(table, lines, {"Forgotten": forgotten, "At its least %": least})


def _left() -> Fields[Line[Any]]:
    return [
        (Column("spans %", "less", "Left"), lambda line: cell_of(line.average("span_share"), 1, 100)),
        (Column("history %", "less", "Left"), lambda line: cell_of(line.average("history_share"), 1, 100)),
    ]


def sizes_table(lines: Sequence[Line[RunRecord]]) -> Table:
    base = next((line for line in lines if line.method == "none"), None)
    change = "vs. none %"
    fields: Fields[Line[RunRecord]] = [
        (Column("tokens", "less", "Peak"), lambda line: cell_of(line.average("peak"), 0)),
        (Column(change, "less", "Peak", optional=True), lambda line: _change_to(line, base, "peak")),
        (Column("million", "less", "Dependency"), lambda line: cell_of(line.average("dependency"), 2, 1e-6)),
        (Column(change, "less", "Dependency", optional=True), lambda line: _change_to(line, base, "dependency")),
        (Column("no cache", "less", "Cost $", optional=True), lambda line: cell_of(line.average("cost"), 4)),
        (Column("cached", "less", "Cost $", optional=True), lambda line: cell_of(line.average("cost_cached"), 4)),
        (Column("Draft tokens", optional=True), lambda line: cell_of(line.average("draft_tokens"), 0)),
    ]
    note = (
        "Per run, all runs. Peak: the largest input of a step; dependency: the sum of (n_i + 2 n_o)·n_o / 2; both "
        "without the system prompt, as in the paper. Cost of the agent's calls, without the draft's, at the list "
        "prices of the model that the replay was told (gpt-4.1 unless named): with no cache, and where prefixes are "
        "cached. The actions are the recorded ones, whatever was left: a run cannot get shorter or longer here."
    )
    return table_of("sizes", "Peak, dependency and cost", note, fields, things=lines, row=_row)


def _change_to(line: Line[RunRecord], base: Line[RunRecord] | None, what: str) -> Number | None:
    if base is None or line is base:
        return None
    both = [place for place in line.records if place in base.records]
    before, after = (sum(getattr(one.records[place], what) for place in both) for one in (base, line))
    return _change(before, after)


def points_table(lines: Sequence[Line[PointRecord]]) -> Table:
    fields: Fields[Line[PointRecord]] = [
        (Column("Recall %", "more"), lambda line: cell_of(line.mean("recall"), 1, 100)),
        (Column("All there %", "more"), lambda line: cell_of(line.mean("whole"), 1, 100)),
        *_left(),
        (Column("Words lost", "less"), lambda line: Number(line.total("words_lost"), 0)),
        (Column("Failed", "less", optional=True), lambda line: Number(line.total("failures"), 0)),
        (Column("At its least %", optional=True), lambda line: cell_of(line.average("floored_share"), 1, 100)),
        (Column("Points"), lambda line: f"{len(line.records):,}"),
        (Column("Runs"), lambda line: f"{line.runs:,}"),
    ]
    note = (
        "One compression of the full history at each point. Recall: of the distinct facts that all later actions use "
        "and only past spans gave, the share that is left, mean over points. All there: points with all of them. "
        f"{_LEFT}"
    )
    table = table_of("points", "Evidence recall at single events", note, fields, things=lines, row=_row)
    least = "At its least: points at which masking could not go as low as FOCUS."
    return _explained(table, lines, {"At its least %": least})


def _explained(table: Table, lines: Sequence[Line[R]], columns: Mapping[str, str]) -> Table:
    """Add to the note a word on the optional columns that are there, and on comparators."""
    there = {column.name for column in table.columns}
    more: list[str] = [said for name, said in columns.items() if name in there]
    more += [_MATCHED] if any(line.matched for line in lines) else []
    return replace(table, note=" ".join([table.note, *more, _INTERVALS]))


def against_table(lines: Sequence[Line[R]], over: str) -> Table | None:
    found = pairs(lines)
    if not found:
        return None
    columns = [
        Column("Recall, points"),
        Column("Supported, points" if over == "steps" else "All there, points"),
        Column("More tokens for it, points"),
        Column(f"Over % of the {over}"),
        Column("Verdict"),
    ]
    rows = []
    for pair in found:
        cells: list[Cell] = [
            cell_of(pair.recall, 1, 100, signed=True),
            cell_of(pair.whole, 1, 100, signed=True),
            Number(100 * pair.more_tokens, 1, signed=True),
            Number(100 * pair.counted, 0),
            pair.verdict,
        ]
        rows.append(Row(f"{pair.focus.name} − {pair.name}", cells, ours=True))
    note = (
        f"In points, paired over the same {over}. {_AGAINST} Verdict on recall: above or below where the 95 % interval "
        f"leaves out zero, none below {FEW} runs."
    )
    title = "FOCUS against the same share of tokens"
    return Table("against", title, note, columns, rows, stub="Difference")


def against_by_file(found: Mapping[str, Sequence[Line[R]]]) -> Table | None:
    """Return the differences in recall, a row for each file."""
    rows: dict[tuple[str, str], dict[str, Pair[R]]] = {}
    for file, lines in found.items():
        for pair in pairs(lines):
            rows.setdefault((file, pair.focus.name), {})[pair.name] = pair
    names: list[str] = list(dict.fromkeys(name for row in rows.values() for name in row))
    if not rows:
        return None
    made = []
    for (file, focus), row in rows.items():
        cells: list[Cell] = [cell_of(row[name].recall, 1, 100, signed=True) if name in row else None for name in names]
        not_above = [name.lower() for name in names if name in row and row[name].verdict != "above"]
        made.append(Row(f"{file.removesuffix('.jsonl')}, {focus}", [*cells, ", ".join(not_above) or "–"], ours=True))
    note = (
        f"Recall of FOCUS minus the comparator's, in points. {_AGAINST} Not clearly above: those whose 95 % interval "
        "holds zero or lies below it."
    )
    columns = [*(Column(f"− {name}") for name in names), Column("Not clearly above")]
    return Table("against-by-file", "FOCUS against the same share of tokens, by file", note, columns, made, stub="File")


def _row(line: Line[R], cells: Sequence[Cell]) -> Row:
    return Row(line.name, cells, ours=line.is_focus, baseline=line.method in ("none", "oracle"))


@dataclass(frozen=True)
class Pair(Generic[R]):
    focus: Line[R]
    other: Line[R]
    name: str
    """Name of the comparator."""
    counted: float = 1.0
    """The share of due steps, or of points, that the comparison is over."""

    @property
    def is_everywhere(self) -> bool:
        return self.counted == 1.0

    @cached_property
    def runs(self) -> int:
        """Number of runs in which both have a recall."""
        both = (place for place in self.focus.records if place in self.other.records)
        return len({place[:2] for place in both if self.focus.records[place].recall is not None})

    @cached_property
    def recall(self) -> Interval | None:
        """FOCUS minus the comparator."""
        return self.focus.minus(self.other, "recall")

    @cached_property
    def whole(self) -> Interval | None:
        return self.focus.minus(self.other, "whole")

    @property
    def more_tokens(self) -> float:
        """Tokens that the comparator has beyond FOCUS, as a share of the tokens of spans."""
        ours, theirs = (line.average("span_share") for line in (self.focus, self.other))
        return (theirs or 0.0) - (ours or 0.0)

    @property
    def verdict(self) -> str:
        if self.recall is None or self.runs < FEW:
            return f"only {self.runs} runs"
        if self.recall.low > 0:
            return "above"
        return "below" if self.recall.high < 0 else "no clear difference"


def pairs(lines: Sequence[Line[R]]) -> list[Pair[R]]:
    """Return every FOCUS with its comparators, and with those of them that can go as low, within that reach."""
    found = []
    for focus in lines:
        for other in lines:
            if focus.is_focus and other.is_matched_to(focus):
                name = other.name.partition(" @")[0]
                found.append(Pair(focus, other, name))
                if other.method.startswith("masking"):
                    found += _within_reach(focus, other, f"{name} within reach")
    return [pair for pair in found if pair.recall is not None]


def _within_reach(focus: Line[R], other: Line[R], name: str) -> Iterator[Pair[R]]:
    def size(record: ReplayRecord) -> int:
        return len(record.due) if isinstance(record, RunRecord) else 1

    both = {place: (focus.records[place], other.records[place]) for place in focus.records if place in other.records}
    near = {place: found for place, (ours, theirs) in both.items() if (found := _near(ours, theirs)) is not None}
    share = sum(size(ours) for ours, _ in near.values()) / max(sum(size(ours) for ours, _ in both.values()), 1)
    if 0 < share < 1:
        ours, theirs = ({place: found[side] for place, found in near.items()} for side in (0, 1))
        yield Pair(replace(focus, records=ours), replace(other, records=theirs), name, share)


def _near(focus: Any, other: Any) -> tuple[Any, Any] | None:
    """Return both with only those steps due at which the second is within reach; None for a point where it is not."""
    if isinstance(focus, PointRecord):
        return (focus, other) if other.span_left <= _REACH * focus.span_left else None
    both = []
    for record in (focus, other):
        pairs = zip(record.steps, focus.steps, other.steps, strict=True)
        steps = (
            replace(step, due=step.due and theirs.span_left <= _REACH * ours.span_left) for step, ours, theirs in pairs
        )
        both.append(replace(record, steps=tuple(steps)))
    return both[0], both[1]


def verdicts(lines: Sequence[Line[R]]) -> list[str]:
    """Return one sentence for each FOCUS."""
    every = pairs(lines)
    sentences = []
    for focus in dict.fromkeys(pair.focus.name for pair in every):
        others: defaultdict[str, list[str]] = defaultdict(list)
        for pair in every:
            if pair.focus.name == focus:
                others[_SAID.get(pair.verdict, "")].append(pair.name.lower())
        parts = [f"{how} {listed(others[how])}" for how in _SAID.values() if how in others]
        if not parts:
            sentences.append(f"There are too few runs for a verdict on {focus}.")
            continue
        if "" in others:
            parts.append(f"with too few runs for a verdict on {listed(others[''])}")
        sentences.append(f"At its share of tokens, {focus} has a recall {'; '.join(parts)}.")
    return sentences


def others_table(file: str, lines: Sequence[Line[RunRecord]]) -> Table | None:
    """Show recall and share that others measured on runs of the same kind as those in a file."""
    theirs = next((one for one in _figures()["others"] if file.startswith(tuple(one["files"]))), None)
    if theirs is None:
        return None
    measures = ("recall", "span_share")
    columns = [Column(name, None, group) for group in ("There", "Here") for name in ("recall", "tokens left")]
    rows = [
        Row(method_name(name), [*map(cell_of, figures), *_averages(_line(lines, name), measures)])
        for name, figures in theirs["rows"].items()
    ]
    rows += [Row(line.name, [None, None, *_averages(line, measures)], ours=True) for line in lines if line.is_focus]
    note = (
        f"There: {theirs['title']}, other runs than these, measured with a similar yardstick, not by us. Here: recall "
        "step by step, and the share of the tokens of spans. The two columns show whether the yardsticks agree; they "
        "are no comparison of methods."
    )
    return Table("others", "Beside figures of other runs", note, columns, rows)


def prototype_table(lines: Sequence[Line[PointRecord]]) -> Table | None:
    """Show the prototype's figures, where the events are the same."""
    theirs = _figures()["prototype"]
    ours = {name: line for name in theirs["rows"] if (line := _line(lines, name)) is not None}
    if not any(line.draft == theirs["draft"] and len(line.records) == theirs["points"] for line in ours.values()):
        return None
    columns = [
        Column(name, None, group)
        for group in ("Prototype", "Here")
        for name in ("recall", "events with all", "tokens left")
    ]
    rows = []
    for name, figures in theirs["rows"].items():
        here = _averages(ours.get(name), ("recall", "whole", "span_share"))
        rows.append(Row(method_name(name), [*map(cell_of, figures), *here], ours=name.startswith("focus")))
    note = (
        "The same 40 events and sketches (recorded sketches of a frontier model, N = 3). The prototype's FOCUS is the "
        "best that it came to: FOCUS-D, with spare room filled to 45 % by data flow. Its newest spans stayed below "
        "FOCUS-D's tokens, ours have as many on average. Its code was not kept, so other differences, above all in "
        "masking, cannot be traced further."
    )
    return Table("prototype", "Beside the first prototype", note, columns, rows)


def paper_table(found: Mapping[str, Sequence[Line[RunRecord]]]) -> Table | None:
    """Compare by how much FOCUS reduces peak and dependency in the paper's runs and in ours."""
    ours = [
        (file, line, base)
        for file, lines in found.items()
        for line in lines
        if line.is_focus and (base := _line(lines, "none")) is not None
    ]
    if not ours:
        return None
    rows = [
        Row(f"Paper: {one['label']}", [_change(*one["peak"]), _change(*one["dependency"])])
        for one in _figures()["paper"]
    ]
    for file, line, base in ours:
        cells = [_change(base.average(measure), line.average(measure)) for measure in ("peak", "dependency")]
        rows.append(Row(f"{file.removesuffix('.jsonl')}, {line.name}", cells, ours=True))
    note = (
        "Against no compression. The paper's agents went on under compression and took their own steps; here the steps "
        "are the recorded ones. Its agent and draft: gpt-4.1; its δ: 4096 on AppWorld, 2048 on OfficeBench."
    )
    columns = [Column("Peak %"), Column("Dependency %")]
    return Table("paper", "Beside the paper: peak and dependency", note, columns, rows, stub="Runs")


def _line(lines: Sequence[Line[R]], method: str) -> Line[R] | None:
    return next((line for line in lines if line.method == method), None)


def _averages(line: Line[R] | None, measures: Sequence[str]) -> list[Cell]:
    return [cell_of(line.average(measure)) if line is not None else None for measure in measures]


def _change(before: float | None, after: float | None) -> Number | None:
    return Number(100 * (after / before - 1), 0, signed=True) if before and after is not None else None


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("reference.toml").read_text("utf-8"))
