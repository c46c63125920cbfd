"""Runs to learn from: which recorded tasks tell ACON's optimiser something, and how they are shown to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from focusctx.baselines.render import dialogue_as_text
from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from focusctx.types import Message


@dataclass(frozen=True, slots=True)
class Memory:
    """A text that stood for older turns, from some step on."""

    text: str
    reply: int
    """The place, among the run's messages, of the first answer that was given with it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One task as an agent went through it."""

    messages: Sequence[Message]
    """The whole history, as it stood at the end."""
    memories: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Contrast:
    """One task that succeeded with the full history and failed with a compressed one."""

    full: Run
    compressed: Run


class _Scored(Protocol):
    @property
    def success(self) -> float: ...


class _Step(Protocol):
    @property
    def reply(self) -> int: ...


S = TypeVar("S", bound=_Step)


class Recorded(Protocol[S]):
    """The part of a bench record that is needed here."""

    @property
    def task(self) -> str: ...
    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def made(self) -> Sequence[Message]: ...
    @property
    def steps(self) -> Sequence[S]: ...
    @property
    def score(self) -> _Scored: ...
    def sent(self, step: S, /) -> Sequence[Message]: ...


def contrasts(full: Iterable[Recorded[S]], compressed: Iterable[Recorded[S]]) -> list[Contrast]:
    """The tasks that only the full history solved."""
    solved = {record.task: _run(record) for record in full if record.score.success >= 1}
    failed = (record for record in compressed if record.score.success < 1 and record.task in solved)
    return [Contrast(solved[record.task], _run(record)) for record in failed]


def successes(compressed: Iterable[Recorded[S]]) -> list[Run]:
    """The tasks that were solved with memories."""
    return [_run(record) for record in compressed if record.score.success >= 1 and record.made]


def _run(record: Recorded[S]) -> Run:
    first_seen: dict[str, int] = {}
    for step in record.steps:
        for message in record.sent(step):
            if any(message is made for made in record.made):
                first_seen.setdefault(str(message.get("content")), step.reply)
    return Run(record.messages, tuple(Memory(text, reply) for text, reply in first_seen.items()))


def run_as_text(run: Run) -> str:
    """The run from its task to its end, with each memory where the agent first had it."""
    history = read_history(run.messages, FocusConfig(), Counter().count, format="chat_completions")
    pieces = [f"Task:\n{history.goal}"]
    for span in history.spans:
        place = history.owners.index(span.index)
        pieces += [f"The memory from here on:\n{memory.text}" for memory in run.memories if memory.reply == place]
        pieces.append(dialogue_as_text(history, [span]))
    return "\n\n".join(pieces)
