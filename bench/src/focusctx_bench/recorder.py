"""Takes down one run while it goes on: sizes as the paper counts them, and each message once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from focusctx.baselines.method import Compressed
from focusctx.types import Message

from .protocols import Turn
from .record import Event, Piece, Record, Step
from .sizes import size


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

    def step(self, compressed: Compressed, turn: Turn, *, waited: float, answered: float) -> None:
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
        """Where each message stands; neighbours in the history become one range."""
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
