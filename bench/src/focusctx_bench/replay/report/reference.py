"""Others' figures beside ours (`reference.toml`): other methods on such runs, a first prototype, the paper."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from focusctx.replay.lines import Line, R, method_name
from focusctx.replay.record import RunRecord

from ...report.table import Cell, Column, Number, Row, Table, cell_of
from ..judge import PointRecord


def others_table(file: str, lines: Sequence[Line[RunRecord]]) -> Table | None:
    """Recall and share that others measured on runs of the same kind as those in a file."""
    theirs = next((one for one in _figures()["others"] if _is_about(one, file)), None)
    if theirs is None:
        return None
    columns = [
        Column("recall", None, "There"),
        Column("tokens left", None, "There"),
        Column("recall", None, "Here"),
        Column("tokens left", None, "Here"),
    ]
    rows = []
    for name, figures in theirs["rows"].items():
        line = _line(lines, name)
        ours: list[Cell] = [None, None]
        if line is not None:
            ours = [cell_of(line.average("recall")), cell_of(line.average("span_share"))]
        rows.append(Row(method_name(name), [*map(cell_of, figures), *ours]))
    for line in lines:
        if line.is_focus:
            found = [cell_of(line.average("recall")), cell_of(line.average("span_share"))]
            rows.append(Row(line.name, [None, None, *found], ours=True))
    note = (
        f"There: {theirs['title']}, other runs than these, measured with a similar yardstick, not by us. Here: recall "
        "step by step, and the share of the tokens of spans. The two columns show whether the yardsticks agree; they "
        "are no comparison of methods."
    )
    return Table("others", "Beside figures of other runs", note, columns, rows)


def prototype_table(lines: Sequence[Line[PointRecord]]) -> Table | None:
    """The prototype's figures on the recorded events, where these are the same events."""
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
        line = ours.get(name)
        found: list[Cell] = [None, None, None]
        if line is not None:
            wanted = ("recall", "whole", "span_share")
            found = [cell_of(line.average(measure)) for measure in wanted]
        is_focus = name.startswith("focus")
        rows.append(Row(method_name(name), [*map(cell_of, figures), *found], ours=is_focus))
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


def _is_about(one: Mapping[str, Any], file: str) -> bool:
    return any(file.startswith(name) for name in one["files"])


def _change(before: float | None, after: float | None) -> Number | None:
    return Number(100 * (after / before - 1), 0, signed=True) if before and after is not None else None


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("reference.toml").read_text("utf-8"))
