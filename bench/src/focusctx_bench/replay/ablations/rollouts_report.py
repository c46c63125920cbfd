"""The ways to sample N sketches, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from focusctx.replay.intervals import bootstrap

from ...report.table import Cell, Column, Number, Row, Table
from .rollouts import WAYS, Taken

_PAPER_SECONDS = {"sequential": 5.286, "parallel": 2.145}


def tables(taken: Iterable[Taken]) -> list[Table]:
    """One for each draft and N."""
    groups: dict[tuple[str, int], list[Taken]] = {}
    for one in taken:
        groups.setdefault((one.draft, one.rollouts), []).append(one)
    return [_table(draft, rollouts, some) for (draft, rollouts), some in groups.items()]


def _table(draft: str, rollouts: int, taken: list[Taken]) -> Table:
    rows = [Row(way, _cells(some, rollouts)) for way in WAYS if (some := [one for one in taken if one.way == way])]
    columns = [
        Column("requests", "less"), Column("input tokens", "less"), Column("output tokens"), Column("seconds", "less"),
        Column("events"),
    ]  # fmt: skip
    note = (
        "Means over events; input tokens as the draft bills them. In brackets: 95 % confidence. Paper: OfficeBench, "
        "gpt-4.1-mini, N = 3."
    )
    return Table(f"rollouts-{rollouts}", f"{rollouts} sketches of {draft}", note, columns, rows, stub="Way")


def _cells(taken: list[Taken], rollouts: int) -> list[Cell]:
    seconds = bootstrap([one.seconds for one in taken])
    paper = _PAPER_SECONDS.get(taken[0].way) if rollouts == 3 else None
    return [
        Number(fmean(one.requests for one in taken), 1),
        Number(fmean(one.input_tokens for one in taken), 0),
        Number(fmean(one.output_tokens for one in taken), 0),
        Number(seconds.mean, 2, seconds.low, seconds.high, paper),
        f"{len(taken)}",
    ]
