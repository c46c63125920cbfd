"""The views of a point (what each method, comparators included, would have the agent read there), and the answers of a
model under them: a record for each point and view.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focusctx.baselines.method import Method
from focusctx.jobs.engines import Meter
from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.replay.comparators import COMPARATORS, comparator
from focusctx.replay.methods import FOCUS, Methods, ReplaySettings, close_method
from focusctx.replay.record import settings_text
from focusctx.types import Message

from ..judge import make_method
from ..points import Point
from ..sketches import PointSketches
from .action import SAYS, action_of

ANSWERS = "answers.jsonl"

FULL = "none"
"""The view that others are held against: the full history."""
AGAIN = "again"
"""The full history once more: how far the model agrees with itself."""
RECORDED = "recorded"
"""No view: what the recorded agent did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(PlainRecord):
    """One turn, at one point of a run, under one method."""

    file: str
    run: str
    messages: int
    """Number of leading messages of the run that were the history."""
    model: str
    """The model that was asked."""
    method: str
    draft: str = ""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as in the records of points."""
    history_tokens: int
    sent_tokens: int
    """Tokens of the view, system prompt excluded."""
    span_tokens: int
    span_left: int
    turn: Message
    """The assistant message."""

    @property
    def place(self) -> tuple[str, str, int]:
        return self.file, self.run, self.messages

    @property
    def line(self) -> tuple[str, str, str]:
        """Key of the table line that the answer belongs to."""
        return self.method, self.draft, settings_text(self.settings)

    @property
    def key(self) -> Key:
        return *self.place, self.model, *self.line, self.budget


def answer_file(folder: Path) -> RecordFile[Answer]:
    return RecordFile(folder / ANSWERS, Answer.from_json)


SEED = 42


@dataclass(frozen=True, slots=True)
class View:
    point: Point
    method: str
    messages: Sequence[Message]
    tokens: int
    """System prompt excluded."""
    left: int
    """Tokens of spans."""

    def answer(self, settings: ReplaySettings, model: str, turn: Message) -> Answer:
        point, compressed = self.point, self.method not in (FULL, AGAIN, RECORDED)
        return Answer(
            file=point.file,
            run=point.run,
            messages=point.messages,
            model=model,
            method=self.method,
            draft=settings.draft_of(self.method) if compressed else "",
            budget=point.budget,
            settings=settings.settings_of(self.method) if compressed else {},
            history_tokens=point.history.tokens,
            sent_tokens=self.tokens,
            span_tokens=point.span_tokens,
            span_left=self.left,
            turn=turn,
        )


async def views_at(methods: Methods, recorded: Sequence[PointSketches], point: Point, _: Meter) -> list[View]:
    """Return the full history twice, then the view of every method with its comparators. One that failed has none."""
    settings = methods.settings
    found = [_view(point, name, point.sent) for name in (FULL, AGAIN)]
    for name in settings.methods:
        if name == FULL:
            continue
        method = make_method(methods, name, point, recorded)
        own = await _under(method, name, point)
        close_method(method)
        if own is None:
            continue
        found.append(own)
        for other in COMPARATORS if settings.matched and name in FOCUS else ():
            matched = comparator(other, name, {point.history.newest: own.left}, methods.embed)
            found += filter(None, [await _under(matched, matched.name, point)])
    return found


async def _under(method: Method, name: str, point: Point) -> View | None:
    sent = await method.compress(point.sent)
    return None if sent.failure is not None else _view(point, name, sent.messages)


def recorded_turn(point: Point) -> Message | None:
    """Return the turn of the recorded agent at the point."""
    messages = point.evidence.run.messages
    turn = messages[point.messages] if point.messages < len(messages) else {}
    return turn if turn.get("role") == "assistant" else None


def sample(points: Iterable[Point], number: int, longest: int) -> list[Point]:
    """Choose `number` points, files in turn, always the same ones: of those at which the recorded agent acted (words to
    a user can be the same in many ways) and whose history has no more tokens than `longest`."""
    files: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        turn = recorded_turn(point)
        if turn and action_of(turn).tools != (SAYS,) and point.evidence.tokens_before(point.messages) <= longest:
            files[point.file].append(point)
    for name, some in files.items():
        random.Random(f"{SEED} {name}").shuffle(some)
    waiting = list(files.values())
    chosen: list[Point] = []
    while waiting and len(chosen) < number:
        chosen += [some.pop() for some in waiting]
        waiting = [some for some in waiting if some]
    return chosen[:number]


def _view(point: Point, method: str, messages: Sequence[Message]) -> View:
    judged = point.judge(messages)
    return View(point, method, messages, judged.seen.tokens, judged.left)
