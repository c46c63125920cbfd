"""Focus: the algorithm, step by step. Each step is one file in `pipeline/`.

Only the draft is waited for, so `compress` and `acompress` share everything but that wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from . import theory
from .blocking import run
from .breaker import Breaker
from .checks import check_types
from .config import FocusConfig, SessionOptions, Settings
from .drafts.registry import draft_from, price_of_draft
from .errors import ConfigError, MessageError
from .pipeline.budget import NEWER, over_budget, pinned_spans
from .pipeline.cite import read_sketch
from .pipeline.draft import build_prompt, sample
from .pipeline.evidence import decisions
from .pipeline.fill import Offers, fill, read_offers, spare_room
from .pipeline.keep import Selection, select
from .pipeline.legal import objection, refusal
from .pipeline.limit import limit
from .pipeline.rebuild import rebuild
from .pipeline.recent import RecentHistories
from .pipeline.score import score
from .pipeline.skeleton import skeleton_tokens
from .pipeline.split import measure
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
        **settings: Unpack[Settings],
    ) -> None:
        self.config = (config or FocusConfig()).with_changes(**settings)
        self.draft = draft_from(draft)
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
        """Return the messages to send instead: the very same list if nothing was due or the draft failed."""
        event = self._begin(messages, goal, format)
        return event if isinstance(event, Result) else self._finish(event, run(self.sketch(event.history)))

    async def acompress(
        self, messages: Sequence[Message] | History, *, goal: str | None = None, format: str | None = None
    ) -> Result:
        """`compress` for async programs."""
        event = self._begin(messages, goal, format)
        return event if isinstance(event, Result) else self._finish(event, await self.sketch(event.history))

    async def sketch(self, history: History) -> Drafted:
        """Return the draft's N sketches for a history: the slow part of an event."""
        started = time.perf_counter()
        prompt = build_prompt(history, self.config)
        seen = frozenset(span.index for span in history.spans)
        replies, problem = await sample(self.draft, prompt, self.config.rollouts, self.config.deadline)
        sketches = tuple(read_sketch(reply.text, seen, truncated=reply.truncated) for reply in replies)
        offers = await self._offers(history, sketches)
        return Drafted(sketches, problem, seen, offers, time.perf_counter() - started, self._usage(replies))

    def pause(self) -> str | None:
        """Return why the draft must not be asked now, or None."""
        left = self._breaker.seconds_left()
        return f"the draft failed and is left alone for {left:.0f} s more (breaker_pause)" if left else None

    def decide(self, history: History, drafted: Drafted, pinned: Mapping[int, str] | None = None) -> Result:
        """Decide from sketches about a history that may have grown since they were sampled: new spans stay.

        The caller decides whether an event is due and builds the view: the result's `messages` are the input messages.
        """
        stay = {**pinned_spans(history, self.config.pin), **(pinned or {})}
        result, _ = self._select(_Event(history, history.messages, {}, stay, time.perf_counter()), drafted)
        return result

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
                    return replace(untouched(messages, spans, reader.tokens, started), warnings=warnings)
                reader = self._recent.current(reader)
                history, objects = reader.history(goal), reader.objects()
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
        """Run everything after the draft: cite, score, keep, rebuild."""
        result, selection = self._select(event, drafted)
        if selection is None or not result.dropped:
            return result
        rebuilt = rebuild(event.history, selection.kept, selection.skeletons)
        if refused := refusal(rebuilt, event.history.messages, event.history.format):
            return self._fail(event, f"the compressed history would be refused: {refused}")
        return replace(result, messages=[event.objects.get(id(message), message) for message in rebuilt])

    def _select(self, event: _Event, drafted: Drafted) -> tuple[Result, Selection | None]:
        """Select the spans that stay by the sketches, with the evidence; no selection if the draft failed."""
        history = event.history
        event.usage = drafted.usage
        event.sketches, event.prompt = drafted.sketches, self.config.prompt
        plans = [sketch for sketch in event.sketches if sketch.problem is None]
        if len(plans) <= self.config.rollouts // 2:
            self._breaker.failed(drafted.seconds)
            nonsense = next((sketch.problem for sketch in event.sketches if sketch.problem), None)
            cause = drafted.problem or nonsense or "the draft gave no reply"
            return self._fail(event, f"{len(plans)} of {self.config.rollouts} sketches usable: {cause}"), None
        self._breaker.succeeded()
        # The draft was told that the newest span stays, so it need not cite it: it stays even if newer ones have come
        # since.
        newest_seen = max(drafted.seen, default=0)
        newer = {span.index: NEWER for span in history.spans if span.index >= newest_seen}
        pinned = {**newer, **event.pinned}
        scores = score(plans)
        selection = select(history, scores, pinned, self.config)
        selection = limit(history, selection, scores, pinned, self.config)
        selection = fill(history, selection, drafted.offers, self.config)
        dropped = tuple(span.index for span in history.spans if span.index not in selection.kept)
        tokens_after = self._size(history, selection, drafted.offers)
        result = replace(
            event.untouched(*_warnings(event.sketches, drafted.problem, tokens_after, self.config.limit)),
            compressed=bool(dropped),
            kept=tuple(sorted(selection.kept)),
            dropped=dropped,
            skeletons=tuple(sorted(selection.skeletons)),
            rescued=tuple(sorted(selection.rescued)),
            pinned=tuple(sorted(selection.pinned)),
            utilities={span.index: scores.utility.get(span.index, 0.0) for span in history.spans},
            decisions=decisions(history, event.sketches, scores, selection),
            certificate=theory.certificate(
                [plan.cited for plan in plans], dropped, confidence=self.config.confidence, m_max=self.config.m_max
            ),
            tokens_after=tokens_after,
        )
        return result, selection

    def _measured(self, history: History, goal: str | None) -> History:
        if history.format == "spans":
            if self.config.dropped == "skeleton":
                raise ConfigError("dropped='skeleton' needs messages to put placeholders into, not bare spans")
            history = measure(history, self.count)
        return history if goal is None else replace(history, goal=goal)

    def _size(self, history: History, selection: Selection, offers: Offers | None) -> int:
        gone = sum(span.tokens for span in history.spans if span.index not in selection.kept)
        known = offers.skeletons if offers else {}
        outlines = sum(known.get(index, 0) for index in selection.skeletons)
        outlines += skeleton_tokens(history, selection.skeletons - known.keys(), self.count)
        return history.tokens - gone + outlines

    async def _offers(self, history: History, sketches: Sequence[Sketch]) -> Offers | None:
        """Value the spans that could fill the room left by the sketches, if there is any."""
        if not self.config.fill:
            return None
        kept = select(history, score(sketches), {}, self.config).kept
        if spare_room(history, kept, self.config) <= 0:
            return None
        # Takes seconds for a million tokens, so not on the event loop.
        return await asyncio.to_thread(read_offers, history, self.count)

    def _usage(self, replies: Sequence[Reply]) -> Usage:
        usage = sum((reply.usage for reply in replies), Usage())
        if not usage.input_tokens + usage.output_tokens:
            return usage
        cost = self.draft_price.cost(usage.input_tokens, usage.output_tokens) if self.draft_price else None
        return replace(usage, cost=cost)

    def _fail(self, event: _Event, why: str) -> Result:
        """Fail open: return the history unchanged, and report the reason in the log and the result."""
        _log.warning("history passed on uncompressed: %s", why)
        return event.untouched(failure=why)


def _again(kind: type[Focus], draft: DraftModel, config: FocusConfig) -> Focus:
    return kind(draft, config=config)


@dataclass(frozen=True, slots=True)
class Drafted:
    """The draft's sketches and their cost."""

    sketches: tuple[Sketch, ...]
    problem: str | None
    seen: frozenset[int]
    """The spans the draft was shown; it can only judge those."""
    offers: Offers | None
    """Spans that may fill the room left by the sketches."""
    seconds: float
    usage: Usage


@dataclass(slots=True)
class _Event:
    """State collected during one call."""

    history: History
    original: Sequence[Message]
    objects: Mapping[int, Message]
    """The caller's SDK objects, by the identity of the plain messages they were read as."""
    pinned: dict[int, str]
    started: float
    sketches: tuple[Sketch, ...] = ()
    prompt: str | None = None
    usage: Usage = Usage()
    warnings: tuple[str, ...] = ()

    def untouched(self, *warnings: str, **more: Any) -> Result:
        """Return a result that leaves everything unchanged, with the data collected so far."""
        return replace(
            untouched(self.original, (span.index for span in self.history.spans), self.history.tokens, self.started),
            history=self.history,
            pinned=tuple(self.pinned),
            sketches=self.sketches,
            prompt=self.prompt,
            usage=self.usage,
            warnings=(*self.warnings, *warnings),
            **more,
        )


def untouched(messages: Sequence[Message], spans: Iterable[int], tokens: int, started: float) -> Result:
    """Return a result with the input list itself and every span kept."""
    return Result(
        messages=messages,
        compressed=False,
        kept=tuple(spans),
        tokens_before=tokens,
        tokens_after=tokens,
        latency=time.perf_counter() - started,
    )


def _warnings(sketches: Sequence[Sketch], problem: str | None, tokens: int, limit: int | None) -> tuple[str, ...]:
    """Problems worth reporting although the event succeeded."""
    found = [problem] if problem else []
    if limit is not None and tokens > limit:
        found.append(f"{tokens} tokens are left, above the limit of {limit}: what may never be dropped stays")
    for number, sketch in enumerate(sketches, 1):
        if sketch.problem:
            found.append(f"sketch {number} is no plan: {sketch.problem}")
        elif sketch.unknown:
            found.append(f"sketch {number} cites what is no span: {', '.join(sketch.unknown)}")
    return tuple(found)
