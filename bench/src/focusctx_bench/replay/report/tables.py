"""The tables of a replay: walks, points, and FOCUS against the comparators that got its share of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from focusctx.replay.lines import Line, R
from focusctx.replay.record import RunRecord

from ...report.table import Cell, Column, Fields, Number, Row, Table, cell_of, table_of
from ..judge import PointRecord
from .pairs import FEW, Pair, pairs

_INTERVALS = "In brackets: where the mean lies with 95 % confidence, by bootstrap over runs."
_MATCHED = "X @ FOCUS: at every due step X had as many tokens of spans as FOCUS left there, give or take a span."
_AGAINST = (
    "Each comparator had as many tokens of spans as FOCUS left: the span across the line is kept as often as the part "
    "of it that fits says. Masking cannot go below its thoughts and actions: “within reach” counts only where it has "
    "at most a tenth more tokens than FOCUS."
)
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
        (Column(change, "less", "Peak", optional=True), lambda line: _change(line, base, "peak")),
        (Column("million", "less", "Dependency"), lambda line: cell_of(line.average("dependency"), 2, 1e-6)),
        (Column(change, "less", "Dependency", optional=True), lambda line: _change(line, base, "dependency")),
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


def _change(line: Line[RunRecord], base: Line[RunRecord] | None, what: str) -> Number | None:
    if base is None or line is base:
        return None
    both = [place for place in line.records if place in base.records]
    before = sum(getattr(base.records[place], what) for place in both)
    after = sum(getattr(line.records[place], what) for place in both)
    return Number(100 * (after / before - 1), 0, signed=True) if before else None


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
    """The differences in recall, a row for each file."""
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
    )
    note += "holds zero or lies below it."
    columns = [*(Column(f"− {name}") for name in names), Column("Not clearly above")]
    return Table("against-by-file", "FOCUS against the same share of tokens, by file", note, columns, made, stub="File")


def _row(line: Line[R], cells: Sequence[Cell]) -> Row:
    return Row(line.name, cells, ours=line.is_focus, baseline=line.method in ("none", "oracle"))
