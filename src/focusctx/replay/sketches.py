"""Recorded sketches: a draft's replies at points of recorded runs, so that they can be replayed without a model.

One JSON line per point: `file` and `id` name the run, `messages` is the number of its leading messages that formed the
history, `spans` the number of assistant turns in that history, `budget` the δ it passed, `replies` the sketches as they
came; `draft` and `settings` tell which draft was asked and how. The history at a point is the full one, nothing
dropped.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from ..config import FocusConfig
from ..errors import BenchError, DraftError
from ..pipeline.draft import build_prompt, sample
from ..types import DraftModel, Prompt, Reply, Usage
from .evidence import Evidence
from .files import read_text, short_name
from .points import Point, point_at
from .record import end_the_last_line
from .runs import Run

Place: TypeAlias = tuple[str, str, int]
"""A file, a run in it, and a number of the run's messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
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
    """Tokens that the draft reported, over all replies …"""
    output_tokens: int = 0
    seconds: float = 0.0
    """… and the seconds it took, while other requests ran at the same time."""

    @classmethod
    def at(cls, point: Point, replies: Iterable[str], **more: Any) -> Recorded:
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
    def place(self) -> Place:
        return self.file, self.id, self.messages

    def as_replies(self) -> list[Reply]:
        """Return the replies in a random but reproducible order: short sketches finish first, so the first few of many
        recorded together are not a fair sample."""
        replies = [Reply(text, truncated=number in self.truncated) for number, text in enumerate(self.replies)]
        random.Random(f"{self.file} {self.id} {self.messages}").shuffle(replies)
        return replies


class Sketches:
    """A file of recorded sketches that can be read and appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Recorded]:
        if not self.path.exists():
            raise BenchError(f"{self.path}: there is no such file; `focusctx replay record` makes one")
        known = {one.name for one in fields(Recorded)}
        for number, line in enumerate(read_text(self.path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                told = json.loads(line)
                told["replies"], told["truncated"] = tuple(told["replies"]), tuple(told.get("truncated", ()))
                yield Recorded(**{name: value for name, value in told.items() if name in known})
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise BenchError(f"{self.path} line {number} holds no recorded sketches: {error!r}") from error

    def by_place(self) -> dict[Place, Recorded]:
        return {recorded.place: recorded for recorded in self}

    def open(self) -> dict[Place, Recorded]:
        """Prepare the file for appending; return the sketches it has already."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        end_the_last_line(self.path)
        return self.by_place() if self.path.exists() else {}

    def add(self, recorded: Recorded) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{json.dumps(asdict(recorded), ensure_ascii=False, separators=(',', ':'))}\n".encode())


class RecordedDraft:
    """Repeats at each recorded point of one run the sketches recorded there.

    If nothing was recorded, `otherwise` is asked; without it such an event fails. A point is identified by its number
    of spans, and only a full history matches: once something was dropped, none does.
    """

    def __init__(self, run: Run, recorded: Iterable[Recorded], otherwise: DraftModel | None = None) -> None:
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


def points_recorded(evidence: Evidence, recorded: Iterable[Recorded]) -> list[Point]:
    """Return the recorded points of a run; an error if they were recorded for another run."""
    run = evidence.run
    found = []
    for one in recorded:
        if (one.file, one.id) != (run.file, run.id):
            continue
        point = point_at(evidence, one.messages, one.budget)
        if len(point.history.spans) != one.spans:
            raise BenchError(
                f"{point} has {len(point.history.spans)} spans, the sketches there are about {one.spans}: "
                "is it another file?"
            )
        found.append(point)
    return found


async def record(
    draft: DraftModel,
    points: Sequence[Point],
    sketches: Sketches,
    *,
    config: FocusConfig,
    at_once: int,
    watch: Callable[[str, Recorded | None, str | None], None],
) -> None:
    """Ask the draft for N sketches at every point that has none yet.

    `config` gives N, temperature, window and deadline. `watch` is called for every point, with its file: what was
    recorded, what went wrong, or neither if it was there already. Points that failed are asked again by the next call.
    """
    known = sketches.open()
    places = asyncio.Semaphore(at_once)

    async def ask(point: Point) -> None:
        if (point.file, point.run, point.messages) in known:
            watch(point.file, None, None)
            return
        async with places:
            began = asyncio.get_running_loop().time()
            prompt = build_prompt(point.history, config)
            replies, problem = await sample(draft, prompt, config.rollouts, config.deadline)
            seconds = asyncio.get_running_loop().time() - began
        if len(replies) < config.rollouts:
            why = f"{len(replies)} of {config.rollouts} sketches, {problem or 'the draft gave no more'}"
            watch(point.file, None, f"{point}: {why}")
            return
        recorded = _recorded(point, replies, draft.name, config, seconds)
        sketches.add(recorded)
        watch(point.file, recorded, None)

    async with asyncio.TaskGroup() as group:
        for point in points:
            group.create_task(ask(point))


def _recorded(point: Point, replies: Sequence[Reply], draft: str, config: FocusConfig, seconds: float) -> Recorded:
    usage = sum((reply.usage for reply in replies), Usage())
    return Recorded.at(
        point,
        (reply.text for reply in replies),
        draft=short_name(draft),
        settings={
            "rollouts": config.rollouts,
            "temperature": config.temperature,
            "defensive": config.defensive,
            "sketch_tokens": config.sketch_tokens,
            "draft_window": config.draft_window,
            "seed": config.seed,
        },
        truncated=tuple(number for number, reply in enumerate(replies) if reply.truncated),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=round(seconds, 3),
    )
