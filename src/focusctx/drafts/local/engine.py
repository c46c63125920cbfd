"""One thread that writes and scores for all who ask: what is asked at the same time is written in one batch.

Callers put jobs into a queue, from any thread or event loop. Between two tokens of the batch the thread sees
whether a new prompt fits in, which replies have ended, and who does not wait any more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from ...errors import DraftError, FocusError
from ...types import Prompt, Reply
from ..grammar import PlanGrammar
from ..likelihood import Scored
from .batch import batch_for
from .model import Source, Stopped, short
from .score import score
from .write import Writer

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job(Generic[_T]):
    """What someone asked for. Results are handed over as they come, then None, or an error instead."""

    hand_over: Callable[[_T | FocusError | None], None]
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by whoever does not wait any more."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WriteJob(Job[Reply]):
    prompt: Prompt
    n: int
    grammar: PlanGrammar | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreJob(Job[list[Scored]]):
    """One list is handed over per prompt, in their order."""

    prompts: tuple[Prompt, ...]
    continuations: tuple[str, ...]


class Engine:
    """A daemon thread, started by the first job. It holds on to no job that is over."""

    def __init__(self, source: Source, min_p: float, batch_tokens: int | None) -> None:
        self.load = source.load
        self.writer: Writer | None = None
        self.thread: threading.Thread | None = None
        self._name = source.name
        self._min_p = min_p
        self._limit = batch_tokens
        self._asked: SimpleQueue[WriteJob | ScoreJob | None] = SimpleQueue()
        self._waiting: deque[WriteJob | ScoreJob] = deque()
        self._over = False
        self._starting = threading.Lock()

    def do(self, job: WriteJob | ScoreJob) -> None:
        with self._starting:
            if self.thread is None or not self.thread.is_alive():  # a fork has the object, but no thread
                self.thread = threading.Thread(target=self._run, name="focusctx-draft", daemon=True)
                self.thread.start()
        self._asked.put(job)

    def end(self) -> None:
        """At its exit Python takes down daemon threads wherever they are, and torch then aborts the process."""
        self._over = True
        self._asked.put(None)
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout=30)

    def _run(self) -> None:
        while not self._over:
            self._collect()
            if self._waiting and self._ready():
                self._admit()
            if self.writer is not None and self.writer.busy:
                self._write()

    def _collect(self) -> None:
        """What was asked meanwhile. Sleeps where there is nothing else to do.

        Of what was asked at once the longest prompts come first: side by side, they are padded to one length.
        """
        idle = not self._waiting and not (self.writer is not None and self.writer.busy)
        asked: list[WriteJob | ScoreJob] = []
        while (job := self._next(wait=idle)) is not None:
            asked.append(job)
            idle = False
        asked.sort(key=_size, reverse=True)
        self._waiting = deque(job for job in (*self._waiting, *asked) if not job.stop.is_set())

    def _next(self, *, wait: bool) -> WriteJob | ScoreJob | None:
        try:
            return self._asked.get(block=wait)
        except Empty:
            return None

    def prepare(self) -> Writer:
        """The model, loaded if it is not there yet."""
        if self.writer is None:
            model = self.load()
            self.writer = Writer(model, batch_for(model, self._limit), self._min_p)
        return self.writer

    def _ready(self) -> bool:
        """Whether the model is there; who asked first is told if it cannot be."""
        try:
            self.prepare()
        except Exception as error:
            self._waiting.popleft().hand_over(self._explain(error))
        return self.writer is not None

    def _admit(self) -> None:
        """As many prompts as there is room for, in the order in which they were asked."""
        assert self.writer is not None
        while self._waiting and not self._over:
            job = self._waiting[0]
            try:
                if isinstance(job, WriteJob) and not self.writer.admit(job, partial(self._left, job)):
                    return
                if isinstance(job, ScoreJob):
                    self._score(job)
            except Stopped:
                pass
            except Exception as error:  # out of memory, a model that cannot do this: the agents go on
                job.hand_over(self._explain(error))
            self._waiting.popleft()

    def _score(self, job: ScoreJob) -> None:
        assert self.writer is not None
        with self.writer.model.ready():
            for found in score(self.writer.model, job.prompts, job.continuations, partial(self._left, job)):
                job.hand_over(found)
        job.hand_over(None)

    def _write(self) -> None:
        assert self.writer is not None
        try:
            self.writer.write()
        except Exception as error:
            self.writer.fail(self._explain(error))

    def _left(self, job: WriteJob | ScoreJob) -> bool:
        return self._over or job.stop.is_set()

    def _explain(self, error: Exception) -> FocusError:
        return error if isinstance(error, FocusError) else DraftError(f"{self._name} failed: {short(error)}")


def _size(job: WriteJob | ScoreJob) -> int:
    """The letters of a prompt that joins the batch; what is scored is scored by itself."""
    return sum(len(message["content"]) for message in job.prompt.messages) if isinstance(job, WriteJob) else 0
