"""What each method would have the agent read at a point: one event over the full history, comparators included."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from focusctx.baselines.method import Method
from focusctx.replay.matched import COMPARATORS, comparator
from focusctx.replay.methods import FOCUS, Setup, Workshop
from focusctx.replay.points import Point
from focusctx.replay.sketches import Recorded
from focusctx.types import Message

from .action import SAYS, action_of
from .answers import AGAIN, FULL, RECORDED, Answer

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

    def answer(self, setup: Setup, model: str, turn: Message) -> Answer:
        point, told = self.point, self.method not in (FULL, AGAIN, RECORDED)
        return Answer(
            file=point.file,
            run=point.run,
            messages=point.messages,
            model=model,
            method=self.method,
            draft=setup.draft_of(self.method) if told else "",
            budget=point.budget,
            settings=setup.settings_of(self.method) if told else {},
            history_tokens=point.history.tokens,
            sent_tokens=self.tokens,
            span_tokens=point.span_tokens,
            span_left=self.left,
            turn=turn,
        )


async def views_at(point: Point, workshop: Workshop, recorded: Sequence[Recorded]) -> list[View]:
    """The full history twice, then every method with the comparators that go with it. One that failed has no view."""
    setup, run = workshop.setup, point.evidence.run
    found = [_view(point, name, point.sent) for name in (FULL, AGAIN)]
    for name in setup.methods:
        if name == FULL:
            continue
        method = workshop.method(name, run, point.budget, recorded)
        own = await _under(method, name, point)
        if (close := getattr(method, "close", None)) is not None:
            close()
        if own is None:
            continue
        found.append(own)
        for other in COMPARATORS if setup.matched and name in FOCUS else ():
            matched = comparator(other, name, {point.history.newest: own.left}, workshop.embed)
            found += filter(None, [await _under(matched, matched.name, point)])
    return found


async def _under(method: Method, name: str, point: Point) -> View | None:
    sent = await method.compress(point.sent)
    return None if sent.failure is not None else _view(point, name, sent.messages)


def recorded_turn(point: Point) -> Message | None:
    """What the recorded agent did at the point."""
    messages = point.evidence.run.messages
    turn = messages[point.messages] if point.messages < len(messages) else {}
    return turn if turn.get("role") == "assistant" else None


def sample(points: Iterable[Point], number: int, longest: int) -> list[Point]:
    """So many points, as many of each file as there are, among those at which the recorded agent acted (words to a
    user can be the same in many ways) and whose history has no more tokens than `longest`; the same ones every time."""
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
