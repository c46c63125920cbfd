"""N sketches one after the other, all at once in N requests, or as one request for N: what each way costs and takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from focusctx.config import FocusConfig
from focusctx.jobs.engines import InProcess, Meter
from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.pipeline.draft import build_prompt
from focusctx.replay.lines import bootstrap
from focusctx.replay.methods import short_name
from focusctx.types import DraftModel, Prompt, Reply, Usage

from ...report.document import Cell, Column, Number, Row, Table, cell_of
from ..points import Point

WAYS = ("sequential", "parallel", "one request")


@dataclass(frozen=True, slots=True)
class Taken(PlainRecord):
    """One event, one way."""

    file: str
    run: str
    messages: int
    draft: str
    way: str
    rollouts: int
    requests: int
    input_tokens: int
    output_tokens: int
    seconds: float

    @property
    def key(self) -> Key:
        return self.file, self.run, self.messages, self.draft, self.way, self.rollouts


@dataclass(frozen=True, slots=True)
class WayItem:
    """One point, one way."""

    point: Point
    way: str

    def __str__(self) -> str:
        return f"{self.point}, {self.way}"


def taken_file(path: Path) -> RecordFile[Taken]:
    return RecordFile(path, Taken.from_json)


def measure(
    draft: DraftModel, points: Sequence[Point], file: RecordFile[Taken], config: FocusConfig, watch: Watch
) -> Tally:
    """Sample at each point each way, one after the other, for what the file does not have yet."""
    done = file.latest()
    # The way that comes second finds more in the server's cache: each is first at every third point.
    ways = [(*WAYS[number % 3 :], *WAYS[: number % 3]) for number in range(len(points))]
    items = [WayItem(point, way) for point, order in zip(points, ways, strict=True) for way in order]
    name, n = short_name(draft.name), config.rollouts
    warm = False

    async def work(item: WayItem, _: Meter) -> list[Taken]:
        nonlocal warm
        prompt = build_prompt(item.point.history, config)
        if not warm:  # the first request, which may load a model, does not count
            await _ask(draft, prompt, 1)
            warm = True
        began = time.perf_counter()
        replies = await _sampled(draft, prompt, item.way, n)
        seconds = time.perf_counter() - began
        usage = sum((reply.usage for reply in replies), Usage())
        taken = Taken(
            file=item.point.file,
            run=item.point.run,
            messages=item.point.messages,
            draft=name,
            way=item.way,
            rollouts=len(replies),
            requests=usage.requests,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            seconds=round(seconds, 4),
        )
        return [taken]

    runner = Runner(
        InProcess(), work, lambda taken: file.add(*taken),
        part=lambda _: "events", is_done=lambda item: (*item.point.place, name, item.way, n) in done, watch=watch,
    )  # fmt: skip
    return runner.run_all(items)


async def _sampled(draft: DraftModel, prompt: Prompt, way: str, n: int) -> list[Reply]:
    if way == "one request":
        return await _ask(draft, prompt, n)
    # With the seeds of the one request: every way samples the same sketches where seeds count.
    prompts = [replace(prompt, seed=prompt.seed + k) for k in range(n)]
    if way == "sequential":
        return [reply for one in prompts for reply in await _ask(draft, one, 1)]
    every = await asyncio.gather(*(_ask(draft, one, 1) for one in prompts))
    return [reply for some in every for reply in some]


async def _ask(draft: DraftModel, prompt: Prompt, n: int) -> list[Reply]:
    return [reply async for reply in draft.sample(prompt, n)]


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
        cell_of(seconds, 2, paper=paper),
        f"{len(taken)}",
    ]
