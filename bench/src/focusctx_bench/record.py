"""The record of one task: everything the tables are made from, and every request as it was sent.

It holds each message once: what a step sent is a list of places in the history, and of messages that the method made
itself. The `Recorder` takes down a run while it goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from focusctx.baselines.method import Compressed
from focusctx.errors import BenchError
from focusctx.jobs.records import Key
from focusctx.types import Message, Usage

from .protocols import ModelAnswer, Score
from .sizes import size

VERSION = 2

Ended: TypeAlias = Literal["done", "steps", "context", "model"]
"""The way a run ended: the task was over; the steps were used up; the model could not read that much; the model, or the
one that the method asks, gave no answer. The last says nothing about the method: such a task is to be run again."""

Piece: TypeAlias = tuple[int, int] | int
"""A part of what was sent: a range of history positions (the end excluded), or `-n` for the n-th message that the
method made."""


@dataclass(frozen=True, slots=True)
class Event:
    """A compression: one that went well, also when it found nothing to drop, or one that was due and failed."""

    happened: bool
    """Something that had been sent before was sent no more."""
    seconds: float
    """Seconds that the agent waited for it."""
    usage: Usage
    tokens_before: int
    """Tokens of the whole history, system prompt excluded."""
    tokens_after: int
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One request of the agent's model and its answer. Token counts are cl100k_base."""

    input_tokens: int
    """`n_i`: what was sent, system prompt excluded."""
    output_tokens: int
    """`n_o`: what came back, words and tool calls."""
    history_tokens: int
    """Tokens that would have been sent without a method."""
    seconds: float
    """Seconds of the model's answer."""
    usage: Usage
    cached_tokens: int
    billed: float | None
    sent: tuple[Piece, ...]
    reply: int
    """The place of the answer in the history."""
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One task under one method."""

    benchmark: str
    task: str
    difficulty: str
    model: str
    method: str
    ended: Ended
    problem: str | None
    score: Score
    seconds: float
    """Wall clock, from the first step to the score."""
    started: str
    """UTC, as ISO 8601."""
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    """The whole history, as it stood at the end."""
    made: tuple[Message, ...] = ()
    """Messages that the method put in place of others, each once."""
    variant: str = ""
    """The method with its settings, as one name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Draft, budget, seed, step limit and the like."""
    proxy: Mapping[str, Any] | None = None
    """Data that a focusctx proxy between agent and model sent and saved; see `proxied.py`."""
    repeat: int = 1
    """1 for the first run of the task under this variant, 2 for the second."""
    version: int = VERSION

    def sent(self, step: Step) -> list[Message]:
        """The messages of that step's request."""
        found: list[Message] = []
        for piece in step.sent:
            found.extend([self.made[-piece - 1]] if isinstance(piece, int) else self.messages[slice(*piece)])
        return found

    @property
    def key(self) -> Key:
        return self.benchmark, self.variant, repeated(self.task, self.repeat)

    def made_by(self, variant: str, settings: Mapping[str, Any], repeat: int = 1) -> Record:
        """Return the record with what it says about how it was made."""
        return replace(self, variant=variant, settings=settings, repeat=repeat)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        if data.get("version") != VERSION:
            raise BenchError(f"a record of version {data.get('version')!r}, this program reads {VERSION}")
        score = Score(**data.pop("score"))
        steps = tuple(_step(step) for step in data.pop("steps"))
        messages, made = tuple(data.pop("messages")), tuple(data.pop("made"))
        return cls(score=score, steps=steps, messages=messages, made=made, **data)


def repeated(task: str, repeat: int) -> str:
    """Return the name of one run of a task; the first has the task's own."""
    return task if repeat == 1 else f"{task} #{repeat}"


def _step(data: dict[str, Any]) -> Step:
    event = data.pop("event")
    if event is not None:
        event = Event(usage=Usage(**event.pop("usage")), **event)
    sent = tuple(piece if isinstance(piece, int) else (piece[0], piece[1]) for piece in data.pop("sent"))
    return Step(usage=Usage(**data.pop("usage")), sent=sent, event=event, **data)


class Recorder:
    def __init__(self, watch: Callable[[Step], None]) -> None:
        self._watch = watch
        self._began = time.perf_counter()
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._method = ""
        self._history: list[Message] = []
        self._made: list[Message] = []
        self._steps: list[Step] = []

    def begin(self, method: str, opening: Sequence[Message]) -> list[Message]:
        """The history, to be appended to."""
        self._method = method
        self._history.extend(opening)
        return self._history

    def step(self, compressed: Compressed, turn: ModelAnswer, *, waited: float, answered: float) -> None:
        """Record a step, before its answer enters the history."""
        before, after = size(self._history), size(compressed.messages)
        event = None
        if compressed.happened or compressed.failure or compressed.usage.requests:
            event = Event(compressed.happened, waited, compressed.usage, before, after, compressed.failure)
        step = Step(
            input_tokens=after,
            output_tokens=size([turn.message]),
            history_tokens=before,
            seconds=answered,
            usage=turn.usage,
            cached_tokens=turn.cached_tokens,
            billed=turn.billed,
            sent=self._places(compressed.messages),
            reply=len(self._history),
            event=event,
        )
        self._steps.append(step)
        self._watch(step)

    def record(self, **known: Any) -> Record:
        return Record(
            method=self._method,
            seconds=time.perf_counter() - self._began,
            started=self._started,
            steps=tuple(self._steps),
            messages=tuple(self._history),
            made=tuple(self._made),
            **known,
        )

    def _places(self, messages: Sequence[Message]) -> tuple[Piece, ...]:
        """Return the place of each message; neighbours in the history become one range."""
        known = {id(message): place for place, message in enumerate(self._history)}
        pieces: list[Piece] = []
        for message in messages:
            place = known.get(id(message), -1)
            if place < 0:
                pieces.append(self._place_of_made(message))
            elif pieces and isinstance(last := pieces[-1], tuple) and last[1] == place:
                pieces[-1] = (last[0], place + 1)
            else:
                pieces.append((place, place + 1))
        return tuple(pieces)

    def _place_of_made(self, message: Message) -> int:
        if message not in self._made:
            self._made.append(json.loads(json.dumps(message)))  # a method may go on to change what it made
        return -1 - self._made.index(message)
