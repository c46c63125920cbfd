"""Recorded sketches: what a draft said at points of recorded runs, kept so that anyone can replay it with no model.

One JSON line per point: `file` and `id` name the run, `messages` is how many of its leading messages were the
history, `spans` how many assistant turns that history has, `budget` the δ it passed, `replies` the sketches as they
came; `draft` and `settings` say which model was asked and how. The history at a point is the full one, nothing dropped.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from focusctx.config import FocusConfig
from focusctx.errors import BenchError, DraftError
from focusctx.jobs.engines import InProcess, Meter
from focusctx.jobs.records import PlainRecord, RecordFile
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.pipeline.draft import build_prompt, sample
from focusctx.replay.facts import Evidence
from focusctx.replay.methods import short_name
from focusctx.replay.runs import Run
from focusctx.types import DraftModel, Prompt, Reply, Usage

from .points import Place, Point, point_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSketches(PlainRecord):
    """The sketches of one point."""

    file: str
    id: str
    messages: int
    spans: int
    budget: int
    replies: tuple[str, ...]
    draft: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    truncated: tuple[int, ...] = ()
    """The places of replies that hit the draft's output limit."""
    input_tokens: int = 0
    """As the draft counted them, over all replies."""
    output_tokens: int = 0
    seconds: float = 0.0
    """Wall clock, together with whatever else was asked at the same time."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PointSketches:
        known = {one.name for one in fields(cls)}
        data["replies"], data["truncated"] = tuple(data["replies"]), tuple(data.get("truncated", ()))
        return cls(**{name: value for name, value in data.items() if name in known})

    @classmethod
    def at(cls, point: Point, replies: Iterable[str], **more: Any) -> PointSketches:
        """Return the sketches of a point."""
        return cls(
            file=point.file,
            id=point.run,
            messages=point.messages,
            spans=len(point.history.spans),
            budget=point.budget,
            replies=tuple(replies),
            **more,
        )

    @property
    def key(self) -> Place:
        return self.file, self.id, self.messages

    def as_replies(self) -> list[Reply]:
        """Return the replies in a random order that is always the same: short sketches are finished first, so the
        first few of many that were recorded together are no fair sample of them."""
        replies = [Reply(text, truncated=number in self.truncated) for number, text in enumerate(self.replies)]
        random.Random(f"{self.file} {self.id} {self.messages}").shuffle(replies)
        return replies


_RECORDED = ("rollouts", "temperature", "defensive", "sketch_tokens", "draft_window", "seed")
"""Settings of the draft that are recorded with its sketches."""


def sketch_file(path: Path) -> RecordFile[PointSketches]:
    return RecordFile(path, PointSketches.from_json)


def read_sketches(path: Path) -> list[PointSketches]:
    """Read a file of sketches, which must be there."""
    if not path.exists():
        raise BenchError(f"{path} does not exist: make it with `focusctx replay record`")
    return list(sketch_file(path))


def by_run(recorded: Iterable[PointSketches]) -> dict[tuple[str, str], list[PointSketches]]:
    found: dict[tuple[str, str], list[PointSketches]] = {}
    for one in recorded:
        found.setdefault((one.file, one.id), []).append(one)
    return found


class RecordedDraft:
    """Repeats at each recorded point of one run what was said there.

    Where nothing was recorded, `otherwise` is asked; without it such an event fails. A point is known by its number
    of spans, and only a full history fits: once something was dropped, nothing matches.
    """

    def __init__(self, run: Run, recorded: Iterable[PointSketches], otherwise: DraftModel | None = None) -> None:
        own = [one for one in recorded if (one.file, one.id) == (run.file, run.id)]
        self._recorded = {one.spans: one for one in own}
        self._otherwise = otherwise
        self.name = next((one.draft for one in own if one.draft), "recorded")

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        spans = prompt.history.spans
        recorded = self._recorded.get(len(spans)) if prompt.history.newest == len(spans) else None
        if recorded is not None:
            for reply in recorded.as_replies()[:n]:
                yield reply
            return
        if self._otherwise is None:
            raise DraftError(f"no sketches were recorded for a history of {len(spans)} spans")
        async with aclosing(self._otherwise.sample(prompt, n)) as replies:  # type: ignore[type-var]
            async for reply in replies:
                yield reply


def points_recorded(evidence: Evidence, recorded: Iterable[PointSketches]) -> list[Point]:
    """Return the recorded points of a run. Raises where the run is not the one they were recorded for."""
    run = evidence.run
    found = []
    for one in recorded:
        if (one.file, one.id) != (run.file, run.id):
            continue
        point = point_at(evidence, one.messages, one.budget)
        if len(point.history.spans) != one.spans:
            raise BenchError(
                f"{point} has {len(point.history.spans)} spans, but its sketches are about {one.spans}: "
                "do they belong to another file?"
            )
        found.append(point)
    return found


def record_sketches(
    draft: DraftModel,
    points: Sequence[Point],
    file: RecordFile[PointSketches],
    *,
    config: FocusConfig,
    at_once: int,
    watch: Watch,
) -> Tally:
    """Ask the draft for N sketches at every point that has none in the file yet.

    `config` gives N, temperature, window and deadline. Points that failed are asked again by the next call.
    """
    file.prepare()
    known = file.latest()
    work = partial(_sketch, draft, config)
    runner = Runner(
        InProcess(at_once), work, lambda made: file.add(*made),
        part=lambda point: point.file, is_done=lambda point: point.place in known, watch=watch,
    )  # fmt: skip
    return runner.run_all(points)


async def _sketch(draft: DraftModel, config: FocusConfig, point: Point, _: Meter) -> list[PointSketches]:
    began = asyncio.get_running_loop().time()
    replies, problem = await sample(draft, build_prompt(point.history, config), config.rollouts, config.deadline)
    seconds = asyncio.get_running_loop().time() - began
    if len(replies) < config.rollouts:
        why = problem or "the draft gave no more"
        raise DraftError(f"{len(replies)} of {config.rollouts} sketches, {why}")
    usage = sum((reply.usage for reply in replies), Usage())
    made = PointSketches.at(
        point,
        (reply.text for reply in replies),
        draft=short_name(draft.name),
        settings={name: getattr(config, name) for name in _RECORDED},
        truncated=tuple(number for number, reply in enumerate(replies) if reply.truncated),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=round(seconds, 3),
    )
    return [made]
