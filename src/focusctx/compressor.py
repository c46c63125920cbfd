"""Focus: the algorithm, step by step. The steps are in `pipeline/`.

Only the draft is waited for, so `compress` and `acompress` share everything but that wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from .checks import check_types
from .config import FocusConfig, FocusSettings, SessionOptions
from .drafts.dataflow import SharedFlow
from .drafts.registry import draft_from, price_of_draft
from .errors import WRONG_USE, MessageError, described
from .pipeline.draft import Breaker, Drafted, build_prompt, passages_of, read_sketch, sample
from .pipeline.evidence import report
from .pipeline.keep import Selection, score, select, select_parts, survey
from .pipeline.must_stay import NEWER, over_budget, pinned_spans, results_like
from .pipeline.rebuild import objection, rebuild, refusal
from .pipeline.split import RecentHistories, measure
from .runtime import run
from .tokens import Counter
from .types import DraftModel, History, Message, Prompt, Reply, Result, Sketch, Usage

if TYPE_CHECKING:
    from .session.session import Session
    from .session.store import Store

_log = logging.getLogger("focusctx")


class Focus:
    """Compresses agent histories: spans that the agent's future depends on stay, word for word."""

    def __init__(
        self,
        draft: str | DraftModel | Callable[[Prompt], str | Awaitable[str]],
        *,
        config: FocusConfig | None = None,
        api_key: str | None = None,
        **settings: Unpack[FocusSettings],
    ) -> None:
        """`api_key` is the key of the provider that `draft` names; by default it is read from the environment."""
        self.config = (config or FocusConfig()).with_changes(**settings)
        self.draft = draft_from(draft, api_key) if api_key is not None else draft_from(draft)
        self.draft_price = price_of_draft(self.draft)
        """The draft's price; None if unknown."""
        self.count = Counter(self.config.tokens).count
        """Counts the tokens of a text, and caches the count."""
        self._recent = RecentHistories(self.config, self.count)
        self._reading = threading.Lock()
        self._breaker = Breaker(self.config.breaker_failures, self.config.breaker_pause, self.config.deadline)

    def __repr__(self) -> str:
        return f"Focus({self.draft.name!r}, budget={self.config.budget})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the draft and the settings; what was read and counted stays with this object."""
        return _again, (type(self), self.draft, self.config)

    def compress(
        self, messages: Sequence[Message] | History, *, goal: str | None = None, format: str | None = None
    ) -> Result:
        """Return the messages to send instead: the very same list if nothing was due, or something failed."""
        try:
            event = self._begin(messages, goal, format)
            return event if isinstance(event, Result) else self._finish(event, run(self.sketch(event.history)))
        except WRONG_USE:
            raise
        except Exception as error:
            return _unchanged(messages, error)

    async def acompress(
        self, messages: Sequence[Message] | History, *, goal: str | None = None, format: str | None = None
    ) -> Result:
        """`compress` for async programs."""
        try:
            event = self._begin(messages, goal, format)
            return event if isinstance(event, Result) else self._finish(event, await self.sketch(event.history))
        except WRONG_USE:
            raise
        except Exception as error:
            return _unchanged(messages, error)

    async def sketch(self, history: History) -> Drafted:
        """Return the draft's N sketches for a history: the slow part of an event."""
        started = time.perf_counter()
        passages, flow = passages_of(history), SharedFlow(history)
        # What the sketches do not say is read meanwhile; a million tokens take seconds, too long for the event loop.
        reading = asyncio.create_task(asyncio.to_thread(survey, history, self.config, flow))
        try:
            prompt = await asyncio.to_thread(build_prompt, history, self.config, flow)
            replies, problem = await sample(self.draft, prompt, self.config.rollouts, self.config.deadline)
            seen = await reading
        finally:
            reading.cancel()  # if this call is cancelled, nobody waits for it
            flow.forget()
        numbers = {index: max(own, default=0) for index, own in passages.items()}
        sketches = tuple(read_sketch(reply.text, numbers, truncated=reply.truncated) for reply in replies)
        drafted = Drafted(
            sketches,
            problem,
            passages,
            seen,
            self._usage(replies),
            _unusable(sketches, problem, self.config.rollouts),
        )
        if drafted.failure is None:
            self._breaker.succeeded()
        else:
            self._breaker.failed(time.perf_counter() - started, drafted.failure)
        return drafted

    def pause(self) -> str | None:
        """Return why the draft must not be asked now, or None."""
        left = self._breaker.seconds_left()
        if not left:
            return None
        return f"the draft is left alone for {left:.0f} s more (breaker_pause), since it failed: {self._breaker.why}"

    def session(self, store: str | Store = "memory", **options: Unpack[SessionOptions]) -> Session:
        """Open a session: decisions that persist in a store, which may be shared. See `focusctx.session`."""
        from .session.session import Session

        check_types(SessionOptions, options)
        return Session(self, store, **options)

    def _begin(self, messages: Sequence[Message] | History, goal: str | None, format: str | None) -> Result | _Event:
        """Run everything before the draft; return an event to sample for, or the result if the draft is not needed."""
        started = time.perf_counter()
        objects: Mapping[int, Message] = {}
        warnings: tuple[str, ...] = ()
        if isinstance(messages, History):
            history = self._measured(messages, goal)
            messages = history.messages
        else:
            with self._reading:
                reader = self._recent.read(messages, format)
                unknown = reader.unknown()
                if unknown and not reader.understands:
                    raise MessageError(unknown)
                warnings = (unknown,) if unknown else ()
                if reader.tokens <= self.config.budget:
                    spans = range(1, reader.newest + 1)
                    return untouched(messages, spans, reader.tokens, started, warnings)
                reader = self._recent.current(reader)
                history, objects = reader.history(goal), reader.objects()
        if history.doubts:
            warnings = (*warnings, history.doubts)
        event = _Event(history, messages, objects, pinned_spans(history, self.config.pin), started, warnings=warnings)
        if not over_budget(history, self.config):
            return event.untouched()
        if illegal := objection(history.messages, history.format):
            return self._fail(event, illegal)
        if len(event.pinned) == len(history.spans):
            return event.untouched("over budget, but no span may be dropped")
        if pause := self.pause():
            return self._fail(event, pause)
        return event

    def _finish(self, event: _Event, drafted: Drafted) -> Result:
        """Run everything after the draft: score, keep, rebuild."""
        if drafted.failure is not None:
            return self._fail(event, drafted.failure, drafted)
        history = event.history
        selection = decide(history, drafted, event.pinned, self.config)
        if len(selection.kept) == len(history.spans):
            return event.report(event.original, drafted, selection, self.config)
        rebuilt = rebuild(history, selection.kept, selection.shortened)
        if refused := refusal(rebuilt, history.messages, history.format):
            return self._fail(event, f"the compressed history would be refused: {refused}", drafted)
        messages = [event.objects.get(id(message), message) for message in rebuilt]
        return event.report(messages, drafted, selection, self.config)

    def _measured(self, history: History, goal: str | None) -> History:
        if history.format == "spans":
            history = measure(history, self.count)
        if not self.config.levels:  # whoever read it may have cut it into passages
            history = replace(history, outlines=None)
        return history if goal is None else replace(history, goal=goal)

    def _usage(self, replies: Sequence[Reply]) -> Usage:
        usage = sum((reply.usage for reply in replies), Usage())
        if not usage.input_tokens + usage.output_tokens:
            return usage
        cost = self.draft_price.cost(usage.input_tokens, usage.output_tokens) if self.draft_price else None
        return replace(usage, cost=cost)

    def _fail(self, event: _Event, why: str, drafted: Drafted | None = None) -> Result:
        """Fail open: return the history unchanged, and report the reason in the log and the result."""
        _log.warning("history passed on uncompressed: %s", why)
        return event.untouched(failure=why, drafted=drafted, prompt=self.config.prompt)


def decide(
    history: History,
    drafted: Drafted,
    pinned: Mapping[int, str],
    config: FocusConfig,
    *,
    regrets: Collection[int] = (),
    reserve: int = 0,
) -> Selection:
    """Select what stays of a history that may have grown since the sketches were sampled: new spans stay.

    `regrets` are spans that looked something up again because it had been cut: results of the same tools come early.
    `reserve` tokens are left free below the target, for what is still to come.
    """
    # The prompt says that the newest span stays, so the draft need not cite it: it stays even if newer ones have come.
    newest_seen = max(drafted.seen, default=0)
    newer = {span.index: NEWER for span in history.spans if span.index >= newest_seen}
    scores = score(drafted.sketches, drafted.seen)
    if drafted.survey is None:
        return select(history, scores, {**newer, **pinned}, config)
    alike = results_like(history, drafted.survey.outlines, regrets)
    return select_parts(history, scores, pinned, drafted.survey, config, newer=newer, alike=alike, reserve=reserve)


def _unchanged(messages: Sequence[Message] | History, error: Exception) -> Result:
    """Fail open after an unexpected error."""
    why = described(error)
    _log.warning("history passed on uncompressed: %s", why, exc_info=error)
    given = messages.messages if isinstance(messages, History) else messages
    return Result(messages=given, compressed=False, failure=why)


def _again(kind: type[Focus], draft: DraftModel, config: FocusConfig) -> Focus:
    return kind(draft, config=config)


def _unusable(sketches: Sequence[Sketch], problem: str | None, wanted: int) -> str | None:
    """Return why too few of the sketches are plans, or None."""
    plans = sum(sketch.problem is None for sketch in sketches)
    if plans > wanted // 2:
        return None
    nonsense = next((sketch.problem for sketch in sketches if sketch.problem), None)
    return f"{plans} of {wanted} sketches usable: {problem or nonsense or 'the draft gave no reply'}"


@dataclass(frozen=True, slots=True)
class _Event:
    """A history that is over its budget."""

    history: History
    original: Sequence[Message]
    objects: Mapping[int, Message]
    """The caller's SDK objects, by the identity of the plain messages they were read as."""
    pinned: Mapping[int, str]
    started: float
    warnings: tuple[str, ...] = ()

    def report(
        self, messages: Sequence[Message], drafted: Drafted, selection: Selection, config: FocusConfig
    ) -> Result:
        return report(
            messages,
            self.history,
            drafted,
            selection,
            config=config,
            latency=time.perf_counter() - self.started,
            warnings=self.warnings,
        )

    def untouched(
        self, *warnings: str, failure: str | None = None, drafted: Drafted | None = None, prompt: str | None = None
    ) -> Result:
        """Return a result that leaves everything unchanged."""
        return Result(
            messages=self.original,
            compressed=False,
            kept=tuple(span.index for span in self.history.spans),
            pinned=tuple(self.pinned),
            sketches=drafted.sketches if drafted else (),
            prompt=prompt if drafted else None,
            tokens_before=self.history.tokens,
            tokens_after=self.history.tokens,
            usage=drafted.usage if drafted else Usage(),
            latency=time.perf_counter() - self.started,
            failure=failure,
            warnings=(*self.warnings, *warnings),
            history=self.history,
        )


def untouched(
    messages: Sequence[Message], spans: Iterable[int], tokens: int, started: float, warnings: tuple[str, ...] = ()
) -> Result:
    """Return a result with the input list itself and every span kept."""
    return Result(
        messages=messages,
        compressed=False,
        kept=tuple(spans),
        tokens_before=tokens,
        tokens_after=tokens,
        latency=time.perf_counter() - started,
        warnings=warnings,
    )
