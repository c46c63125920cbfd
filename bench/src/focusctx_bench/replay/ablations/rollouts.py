"""N sketches one after the other, all at once in N requests, or as one request for N: what each way costs and takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from focusctx.config import FocusConfig
from focusctx.jobs.engines import InProcess
from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.jobs.runner import Runner, Watch
from focusctx.jobs.tally import Meter, Tally
from focusctx.pipeline.draft import build_prompt
from focusctx.replay.methods import short_name
from focusctx.types import DraftModel, Prompt, Reply, Usage

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


def measure(
    draft: DraftModel, points: Sequence[Point], file: RecordFile[Taken], config: FocusConfig, watch: Watch
) -> Tally:
    """Sample at each point each way, one after the other, for what the file does not have yet."""
    done = file.latest()
    # The way that comes second finds more in the server's cache: each is first at every third point.
    ways = [(*WAYS[number % 3 :], *WAYS[: number % 3]) for number in range(len(points))]
    items = [WayItem(point, way) for point, order in zip(points, ways, strict=True) for way in order]
    name, n = short_name(draft.name), config.rollouts
    runner = Runner(
        InProcess(), _Stopwatch(draft, config).measure, lambda taken: file.add(*taken),
        part=lambda _: "events", is_done=lambda item: (*item.point.place, name, item.way, n) in done, watch=watch,
    )  # fmt: skip
    return runner.run_all(items)


def taken_file(path: Path) -> RecordFile[Taken]:
    return RecordFile(path, Taken.from_json)


class _Stopwatch:
    """Measures one way after the other; the first request, which may load a model, does not count."""

    def __init__(self, draft: DraftModel, config: FocusConfig) -> None:
        self._draft = draft
        self._config = config
        self._warm = False

    async def measure(self, item: WayItem, _: Meter) -> list[Taken]:
        prompt = build_prompt(item.point.history, self._config)
        if not self._warm:
            await _ask(self._draft, prompt, 1)
            self._warm = True
        return [await _taken(self._draft, item.point, prompt, item.way, self._config.rollouts)]


async def _taken(draft: DraftModel, point: Point, prompt: Prompt, way: str, rollouts: int) -> Taken:
    began = time.perf_counter()
    if way == "sequential":
        replies = [reply for k in range(rollouts) for reply in await _ask(draft, _seeded(prompt, k), 1)]
    elif way == "parallel":
        every = await asyncio.gather(*(_ask(draft, _seeded(prompt, k), 1) for k in range(rollouts)))
        replies = [reply for some in every for reply in some]
    else:
        replies = await _ask(draft, prompt, rollouts)
    seconds = time.perf_counter() - began
    usage = sum((reply.usage for reply in replies), Usage())
    return Taken(
        file=point.file,
        run=point.run,
        messages=point.messages,
        draft=short_name(draft.name),
        way=way,
        rollouts=len(replies),
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=round(seconds, 4),
    )


def _seeded(prompt: Prompt, k: int) -> Prompt:
    """Return the prompt with the seed of the k-th sketch: every way samples the same ones where seeds count."""
    return replace(prompt, seed=prompt.seed + k)


async def _ask(draft: DraftModel, prompt: Prompt, n: int) -> list[Reply]:
    arriving: AsyncIterator[Reply] = draft.sample(prompt, n)
    return [reply async for reply in arriving]
