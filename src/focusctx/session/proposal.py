"""Proposals: the change of a conversation's view that a set of sketches leads to, and the requests for sketches.

A proposal is computed when the sketches arrive, for a snapshot of the conversation from when they were requested, so
that the call that applies it has little left to do: later messages stay, and are appended.

A draw is one request for sketches. Conversations of one tenant with the same history join the same draw, whichever
thread or event loop they run in. The first one drives it, in a task or on a thread. If that is cancelled, or its loop
ends, one of the others starts again. A finished draw is kept for a while, for conversations that reach the same place a
little later.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING

from ..compressor import Focus, decide
from ..errors import StoreError
from ..pipeline.draft import Drafted, reasons
from ..pipeline.evidence import report
from ..pipeline.keep import Selection, excess_of, survey, target_tokens
from ..pipeline.must_stay import NEWER, NEWEST, companions_of, pinned_spans, repeated_lookups
from ..pipeline.outline import Outlines, Parts, joint_records
from ..pipeline.rebuild import rebuild, refusal
from ..pipeline.split import tokens_of
from ..runtime import Runtime, Work
from ..types import History, Message, PinRule, Result
from ..wire import wire_named
from .fork import ForkSafe
from .recall import TOOL, note
from .store import Archived, Originals, PerStore, Spelled, pack_all

if TYPE_CHECKING:
    from .conversation import Conversation

_log = logging.getLogger("focusctx")
_TRIES = 3
"""Times that a selection is made anew, with less room, because of the note on what it leaves out."""
_EARLIER = "what an earlier event left of it"
_RECORD: Parts = frozenset()
"""The passages that a record shows."""
_HOLD = 5
"""Number of further steps for which a recalled one is pinned."""
_KEPT = 32
"""Most finished draws to keep that no conversation holds."""


@dataclass(frozen=True)
class LeftOut:
    """The spans that a view does not show whole. Their originals are in the store."""

    passages: Mapping[int, Parts | None] = field(default_factory=dict)
    """The passages that are shown of each: none for a record, and None if nothing of the span is shown."""

    def __hash__(self) -> int:
        return hash(frozenset(self.passages.items()))

    @cached_property
    def spans(self) -> frozenset[int]:
        """Every one of these spans, those that are shown in part included."""
        return frozenset(self.passages)

    @cached_property
    def shown(self) -> dict[int, Parts]:
        """The spans that are shown in part, with these passages."""
        return {index: parts for index, parts in self.passages.items() if parts is not None}

    @cached_property
    def gone(self) -> frozenset[int]:
        """The spans that are not shown at all."""
        return self.spans - self.shown.keys()

    def then(self, later: LeftOut) -> LeftOut:
        """Leave more out. What an earlier event left of a span may shrink further, or go."""
        return LeftOut({**self.passages, **later.passages})

    def without(self, spans: Collection[int]) -> LeftOut:
        """Bring these spans back."""
        return LeftOut({index: parts for index, parts in self.passages.items() if index not in spans})

    def showing(self, passages: Mapping[int, Parts]) -> LeftOut:
        """Show these passages of spans that are left out."""
        more = {
            index: (self.passages[index] or frozenset()) | passages[index] for index in self.spans & passages.keys()
        }
        return LeftOut({**self.passages, **more})

    def shows_more_than(self, other: LeftOut) -> bool:
        """True if a span or a passage is shown that the other leaves out."""
        return (
            not other.spans <= self.spans
            or not other.gone <= self.gone
            or any(self.shown[index] - other.shown[index] for index in self.shown.keys() & other.shown.keys())
        )

    def since(self, earlier: LeftOut) -> LeftOut:
        """The changes that lead from `earlier` to this: `earlier.then(…)` of them gives this."""
        before = earlier.passages
        return LeftOut(
            {index: parts for index, parts in self.passages.items() if index not in before or parts != before[index]}
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a conversation: its length, its newest chain key and what its view leaves out."""

    messages: int
    head: str
    left_out: LeftOut


@dataclass(frozen=True, slots=True)
class Change:
    """A new view of the same history."""

    left_out: LeftOut
    view: list[Message]
    tokens: int
    unmoved: int
    """Tokens at its beginning that stay where they were."""
    moves: bool
    """True if the view differs at all: the record of a very short step is the step itself."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation at one time, for which sketches are sampled and decided."""

    focus: Focus
    history: History
    """The full history."""
    sizes: Sequence[int]
    """Tokens of each message."""
    keys: Sequence[str]
    """Chain keys of its spans."""
    place: Place
    decided: LeftOut
    """Everything that stored events leave out; `place.left_out` is the part that could be left out here."""
    restored: Mapping[int, str]
    """Spans that stay because they were restored, with the reason."""
    passages_back: Mapping[int, Parts]
    """Passages that stay because they were restored."""
    left_out_at: Mapping[int, int]
    """For each span that was left out, the newest span at that time."""
    view: Sequence[Message]
    tokens: int
    """Tokens of the view."""
    noted: bool
    """True if a view gets a note on what was left out."""

    def remaining(self) -> History:
        """Return the history of the remaining spans, as they are now; an event decides about these."""
        left_out, outlines = self.place.left_out, self.history.outlines
        if outlines is None:
            spans = [span for span in self.history.spans if span.index not in left_out.spans]
        else:
            outlines = outlines.after(left_out.shown)
            sizes = shortened_sizes(self.history, outlines, left_out)
            spans = [
                replace(span, tokens=sizes.get(span.index, span.tokens))
                for span in self.history.spans
                if span.index not in left_out.gone
            ]
        gone = tuple(span for span in self.history.spans if span.index in left_out.gone)
        # Without messages: the view is always rebuilt from the full history.
        return replace(
            self.history,
            spans=tuple(spans),
            messages=(),
            owners=(),
            tokens=self.tokens,
            outlines=outlines,
            gone=gone,
        )

    def regrets(self) -> dict[int, str]:
        """Return the spans that looked something up again whose result had been cut; the paper's rule knows none."""
        config = self.focus.config
        if not config.levels and config.target is None:
            return {}
        return repeated_lookups(self.history.spans, self.left_out_at, config.reads)

    def pinned(self, history: History) -> dict[int, str]:
        """Return the spans of the remaining history that stay whole, with the reasons."""
        return {
            **pinned_spans(history, self.focus.config.pin),
            **pinned_recalls(history),
            **self.regrets(),
            **self.restored,
        }

    def change_to(self, decided: LeftOut) -> Change:
        """Return the view that leaves this out, as far as it may be left out."""
        left_out = _possible(self.history, decided.showing(self.passages_back), self.focus.config.pin)
        view = view_of(self.history, left_out, noted=self.noted)
        same = _common(self.view, view)
        sizes = self._sizes(view)
        return Change(left_out, view, sum(sizes), sum(sizes[:same]), same < max(len(view), len(self.view)))

    def change_by(self, left: LeftOut) -> Change:
        """Return the view after an event that leaves this out, beside what was left out before.

        If something of it has to stay, its companions stay, too, and these may be steps that an earlier event left out.
        But that decision is stored and others follow it, so it holds: the event shrinks until both agree.
        """
        change = self.change_to(self.decided.then(left))
        for _ in self.history.spans:
            again = self.change_to(self.decided.then(change.left_out))
            if again.left_out == change.left_out:
                return change
            change = again
        return self.change_to(self.decided)

    def _sizes(self, view: Sequence[Message]) -> list[int]:
        """Return the tokens of each message of a view, counting only messages made for the view."""
        known = dict(zip(map(id, self.history.messages), self.sizes, strict=True))
        wire = wire_named(self.history.format)
        sizes = ((message, known.get(id(message))) for message in view)
        return [tokens_of(message, wire, self.focus.count) if size is None else size for message, size in sizes]


def shortened_sizes(history: History, outlines: Outlines, left_out: LeftOut) -> dict[int, int]:
    """Return the tokens of the shortened spans, with the lines behind them about spans that are gone."""
    whole = {span.index for span in history.spans if span.index not in left_out.spans}
    lines = joint_records(history.spans, whole, left_out.shown, outlines)
    return {
        span.index: outlines.tokens(span, parts, lines.get(span.index, ""))
        for span in history.spans
        if (parts := left_out.shown.get(span.index)) is not None
    }


def view_of(history: History, left_out: LeftOut, *, noted: bool) -> list[Message]:
    """Return the messages that remain."""
    kept = [span.index for span in history.spans if span.index not in left_out.spans]
    view = rebuild(history, kept, left_out.shown)
    if noted and left_out.spans:
        place = next(place for place, owner in enumerate(history.owners) if owner)
        while history.format == "anthropic" and place and view[place - 1].get("role") == "system":
            place -= 1  # what the model answers must stay before its answer
        view.insert(place, note(left_out.gone, left_out.shown, history.format))
    if view and isinstance(history.messages[0], Spelled):  # then all parsed messages are Spelled
        view = [message if isinstance(message, Spelled) else Spelled.made(message) for message in view]
    return view


def pinned_recalls(history: History) -> dict[int, str]:
    """Pin the steps that called the recall tool recently, so that what they brought back is not dropped at once."""
    return {
        span.index: "recalled a moment ago"
        for span in history.spans
        if f"{TOOL}(" in span.action and span.index >= history.newest - _HOLD
    }


def _possible(history: History, decided: LeftOut, pin: PinRule | None) -> LeftOut:
    """Return what can be left out here. The chain may have continued differently since: in a fork a span that was left
    out may be the newest, or hold the reasoning that the newest continues."""
    whole = {span.index for span in history.spans if span.index not in decided.spans}
    whole |= pinned_spans(history, pin).keys()
    needed = companions_of(history, whole | decided.shown.keys()).keys() - whole
    if history.outlines is None:
        return decided.without(whole | needed)
    left = decided.then(LeftOut(dict.fromkeys(needed, _RECORD))).without(whole)
    if any(span.index in left.shown and history.outlines.has_result(span) for span in history.spans):
        return left
    # No remaining step could carry a line about the deeds of others, so these keep their records.
    deeds = [span.index for span in history.spans if span.index in left.gone and history.outlines.deeds(span)]
    return left.then(LeftOut(dict.fromkeys(deeds, _RECORD)))


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))


@dataclass(frozen=True, slots=True)
class Proposal:
    """The view that a set of sketches leads to, and all that the event will store and report."""

    snapshot: Snapshot
    drafted: Drafted
    selection: Selection
    change: Change
    illegal: str | None
    """Why the provider would refuse the view, or None."""
    originals: Originals
    """Originals of the spans to be left out, verbatim."""
    news: LeftOut
    """Spans and passages newly left out, as the event will record them."""


class EventEvidence:
    """The evidence for an event. Its result is made on first access: an agent waits for the view only."""

    def __init__(self, proposal: Proposal, latency: float) -> None:
        self.failure = proposal.drafted.failure
        """Why the sketches do not support a decision, or None."""
        self.regrets = tuple(sorted(proposal.snapshot.regrets()))
        """Spans that looked something up again whose result had been cut."""
        lighter = replace(proposal.drafted, survey=None)
        self._proposal = replace(proposal, drafted=lighter, originals=Originals())
        self._latency = latency

    @cached_property
    def result(self) -> Result:
        snapshot, drafted = self._proposal.snapshot, self._proposal.drafted
        history, config = snapshot.remaining(), snapshot.focus.config
        if self.failure is not None:
            return Result(
                messages=snapshot.view,
                compressed=False,
                kept=tuple(span.index for span in history.spans),
                sketches=drafted.sketches,
                tokens_before=history.tokens,
                tokens_after=history.tokens,
                usage=drafted.usage,
                failure=self.failure,
                history=history,
                prompt=config.prompt,
            )
        change = self._proposal.change
        excess = excess_of(change.tokens, config)
        return report(
            change.view,
            history,
            drafted,
            replace(self._proposal.selection, tokens=change.tokens, excess=excess),
            config=config,
            latency=self._latency,
            warnings=(history.doubts,) if history.doubts else (),
            regrets=self.regrets,
        )

    def __getstate__(self) -> dict[str, object]:
        """Copy the result alone: what it is made of holds a draft and a token counter, which may not be copyable."""
        return {"failure": self.failure, "regrets": self.regrets, "result": self.result}


async def foresee(snapshot: Snapshot) -> Proposal:
    """Ask for sketches and compute their proposal: the slow part of an event."""
    drafted = await snapshot.focus.sketch(snapshot.remaining())
    return await asyncio.to_thread(propose, snapshot, drafted)


def propose(snapshot: Snapshot, drafted: Drafted) -> Proposal:
    """Decide by the sketches, and build the view that follows."""
    history = snapshot.remaining()
    if drafted.failure is not None:
        _log.warning("history passed on uncompressed: %s", drafted.failure)
        same = Change(snapshot.place.left_out, list(snapshot.view), snapshot.tokens, snapshot.tokens, False)
        everything = frozenset(span.index for span in history.spans)
        nothing = Selection(everything, frozenset(), frozenset(), {})
        return Proposal(snapshot, drafted, nothing, same, None, Originals(), LeftOut())
    selection, change = _chosen(snapshot, drafted, history)
    illegal = refusal(change.view, snapshot.history.messages, history.format)
    news = change.left_out.since(snapshot.place.left_out)
    originals = Originals(_originals(snapshot, drafted, news))
    with suppress(StoreError):  # the store will report the error again
        pack_all(originals)
    return Proposal(snapshot, drafted, selection, change, illegal, originals, news)


def _chosen(snapshot: Snapshot, drafted: Drafted, history: History) -> tuple[Selection, Change]:
    """Select the spans and passages that stay, and return them with the change of the view that follows."""
    config, pinned, regrets = snapshot.focus.config, snapshot.pinned(history), snapshot.regrets()
    # Sketches sampled ahead of time see a history within the budget; what comes until it is full stays whole.
    coming = reserve = max(config.budget - history.tokens, 0)
    target = target_tokens(config)
    for _ in range(_TRIES):
        selection = decide(history, drafted, pinned, config, regrets=regrets, reserve=reserve)
        selection = _with_earlier(selection, history, snapshot.place.left_out)
        not_kept = [span.index for span in history.spans if span.index not in selection.kept]
        change = snapshot.change_by(LeftOut({index: selection.shortened.get(index) for index in not_kept}))
        if target is None or change.tokens <= max(target - coming, selection.tokens):
            break
        # The note on what was left out takes room, too.
        reserve = max(reserve + 1, coming + change.tokens - selection.tokens)
    back = {index: change.left_out.shown[index] for index in snapshot.passages_back if index in change.left_out.shown}
    if back:
        selection = replace(selection, kept=selection.kept - back.keys(), shortened={**selection.shortened, **back})
    if snapshot.history.outlines is not None:  # the lines about steps that are gone may have moved
        sizes = shortened_sizes(snapshot.history, snapshot.history.outlines, change.left_out)
        selection = replace(selection, sizes={**selection.sizes, **sizes})
    return selection, change


def up_to_date(proposal: Proposal, now: Snapshot) -> Proposal:
    """Bring a proposal up to date with a conversation that has grown, or holds the same history in other objects.

    Newer messages follow a span that stays whole, as they do in the history, so no provider can newly object to them.
    """
    seen = proposal.snapshot.place.messages
    new = now.history.messages[seen:]
    if proposal.drafted.failure is not None:
        return proposal
    if not new:
        same = _has_same_objects(proposal, now)
        return proposal if same else replace(proposal, snapshot=now, change=now.change_by(proposal.change.left_out))
    if not _holds(proposal, now):
        survey_now = survey(now.remaining(), now.focus.config)  # new steps count, too
        return propose(now, replace(proposal.drafted, survey=survey_now))
    was = proposal.change
    change = replace(was, view=[*was.view, *new], tokens=was.tokens + sum(now.sizes[seen:]))
    # The span that was the newest at that time was not judged, either.
    unjudged = now.history.spans[len(proposal.snapshot.history.spans) - 1 :]
    newer = {span.index: NEWEST if span is unjudged[-1] else NEWER for span in unjudged}
    selection = proposal.selection
    selection = replace(selection, kept=selection.kept | newer.keys(), pinned={**selection.pinned, **newer})
    return replace(proposal, snapshot=now, selection=selection, change=change)


def _holds(proposal: Proposal, now: Snapshot) -> bool:
    """True if the newer messages only append, leave room below the target, and need no span that would go."""
    then, gone = proposal.snapshot.history, proposal.change.left_out.gone
    target = target_tokens(now.focus.config)
    tokens = proposal.change.tokens + sum(now.sizes[proposal.snapshot.place.messages :])
    owners = chain.from_iterable((o,) if isinstance(o, int) else o for o in now.history.owners[len(then.messages) :])
    return (
        (target is None or tokens <= target)
        and now.decided == proposal.snapshot.decided
        and now.regrets() == proposal.snapshot.regrets()
        and _has_same_objects(proposal, now)
        and all(owner == 0 or owner >= then.newest for owner in owners)
        and not any(span.needs in gone for span in now.history.spans[len(then.spans) :])
    )


def _has_same_objects(proposal: Proposal, now: Snapshot) -> bool:
    """True if the proposal was made for these very messages: a view must hold the caller's own objects."""
    return all(map(is_, proposal.snapshot.history.messages, now.history.messages))


def _with_earlier(selection: Selection, history: History, earlier: LeftOut) -> Selection:
    """Return the selection with spans that an earlier event shortened, and this one keeps, as shortened spans."""
    left = {index: parts for index, parts in earlier.shown.items() if index in selection.kept}
    if not left:
        return selection
    return replace(
        selection,
        kept=selection.kept - left.keys(),
        shortened={**left, **selection.shortened},
        sizes={**{span.index: span.tokens for span in history.spans if span.index in left}, **selection.sizes},
        pinned={index: why for index, why in selection.pinned.items() if index not in left},
        notes={**selection.notes, **dict.fromkeys(left, _EARLIER)},
    )


def _originals(snapshot: Snapshot, drafted: Drafted, news: LeftOut) -> list[Archived]:
    """Return the originals of the spans to be left out; those of spans shortened earlier are stored already."""
    going = news.spans - snapshot.place.left_out.spans
    said = reasons(drafted.sketches, going)
    cited = Counter(index for plan in drafted.plans for index in plan.cited)
    return [
        Archived(
            key=snapshot.keys[span.index - 1],
            index=span.index,
            messages=span.messages,
            tokens=span.tokens,
            utility=cited[span.index] / max(len(drafted.plans), 1),
            reason="; ".join(said.get(span.index, ())) or "no sketch needs it",
        )
        for span in snapshot.history.spans
        if span.index in going
    ]


class Draw:
    """Sketches that one or several conversations wait for; `users` counts them.

    `scope` is everything that they depend on besides the history: tenant, settings, the last event. `price` is their
    expected cost in USD, None if unknown.
    """

    def __init__(
        self, scope: Hashable, place: Place, price: float | None, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self.scope = scope
        self.price = price
        self.place = place
        self.outcome: Future[Proposal | Drafted | BaseException | None] = Future()
        """The proposal, or the error it ended with; None if it was cancelled or never started. A draw kept for later
        conversations holds only the sketches: a proposal holds the whole history."""
        self.decided: Future[None] = Future()
        """Settled when the first user has stored a decision, or has left."""
        self.users = 0
        self.is_paid = False
        self._loop = loop
        self._decider: Runtime[object] | None = None
        self._work: Work | None = None
        self._process = os.getpid()

    @property
    def done(self) -> bool:
        return self.outcome.done()

    @property
    def failed(self) -> bool:
        """True if it ended without a usable proposal."""
        if not self.done:
            return False
        found = self.outcome.result()
        return not isinstance(found, Drafted) and (not isinstance(found, Proposal) or found.drafted.failure is not None)

    @property
    def started(self) -> bool:
        return self._work is not None

    def start(self, snapshot: Snapshot, runtime: Runtime[object]) -> None:
        work = self._work = runtime.start(self._drive(snapshot))
        if isinstance(work, asyncio.Task):
            work.add_done_callback(lambda _: self._settle(None))  # also if it is cancelled before it began

    def is_worth_waiting_for(self, runtime: Runtime[object]) -> bool:
        """True if it is done, or makes progress while a call waits for it in that runtime."""
        if self.done:
            return self.outcome.result() is not None
        return self._process == os.getpid() and _goes_on(self._loop, runtime)

    def is_driven_by(self, runtime: Runtime[object]) -> bool:
        """True on the event loop that drives it, where it keeps its own deadline."""
        return self._loop is not None and self._loop is runtime.loop

    def is_first(self, runtime: Runtime[object]) -> bool:
        """True if this call is the first to apply it, and so the one that decides."""
        if self._decider is None:
            self._decider = runtime
        return self._decider is runtime

    def is_being_decided(self, runtime: Runtime[object]) -> bool:
        """True while the first user applies it, and can make progress while a call waits in that runtime."""
        return self._decider is not None and not self.decided.done() and _goes_on(self._decider.loop, runtime)

    def end_decision(self) -> None:
        with suppress(InvalidStateError):  # two threads may both have been the first
            self.decided.set_result(None)

    def stop(self) -> None:
        """Cancel it; if it was never started, its other users start again."""
        work = self._work
        with suppress(RuntimeError):  # its loop is closed
            if work is None:
                self._settle(None)
            elif isinstance(work, asyncio.Task):
                work.get_loop().call_soon_threadsafe(work.cancel)
            else:
                work.cancel()

    def lighten(self) -> None:
        """Keep only the sketches, if they are usable."""
        if isinstance(found := self.outcome.result(), Proposal) and not self.failed:
            self.outcome = Future()
            self.outcome.set_result(found.drafted)

    async def _drive(self, snapshot: Snapshot) -> None:
        try:
            self._settle(await foresee(snapshot))
        except Exception as error:  # raised again in every call that waits
            self._settle(error)
        finally:
            self._settle(None)

    def _settle(self, found: Proposal | BaseException | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(found)


class Draws(ForkSafe):
    """The draws of all sessions that share a store."""

    def __init__(self) -> None:
        super().__init__()
        self._draws: list[Draw] = []
        """Most recently joined last."""

    def join(
        self, conversation: Conversation, scope: Hashable, price: float | None, runtime: Runtime[object]
    ) -> tuple[Draw, bool]:
        """Hold the newest draw for the conversation's past; also return whether it is new, for the caller to start."""
        with self._lock:
            known = [
                draw
                for draw in self._draws
                if draw.scope == scope
                and not draw.failed
                and draw.is_worth_waiting_for(runtime)
                and conversation.goes_on_from(draw.place)
            ]
            draw = max(known, key=lambda draw: draw.place.messages, default=None)
            is_new = draw is None
            if draw is None:
                draw = Draw(scope, conversation.place, price, runtime.loop)
            else:
                self._draws.remove(draw)
            draw.users += 1
            self._draws.append(draw)
            return draw, is_new

    def release(self, draw: Draw, *, is_new: bool = False) -> bool:
        """Release a draw; True if its sketches were requested and then stopped because nobody else waits for them.

        `is_new` is True for the caller that was to start it.
        """
        with self._lock:
            draw.users -= 1
            ends = not draw.done and (not draw.users or (is_new and not draw.started))
            if not draw.users and draw.done and not draw.failed:
                draw.lighten()
            unused = [known for known in self._draws if not known.users]
            useless = {known for known in unused if not known.done or known.failed}
            useless.update(unused[:-_KEPT])
            self._draws = [known for known in self._draws if known not in useless]
        if ends:
            draw.stop()
        return ends and draw.started

    def give_up(self, draw: Draw) -> None:
        """Let no other conversation join this draw."""
        with self._lock:
            self._draws = [known for known in self._draws if known is not draw]

    def bill(self, draw: Draw) -> float | None:
        """Return the cost of a draw in USD, None if unknown, and 0 from the second time on: it is paid for once.

        A draw that was stopped half-way has its expected cost: providers bill that too.
        """
        with self._lock:
            if draw.is_paid or not draw.done:
                return 0.0
            draw.is_paid = True
            found = draw.outcome.result()
            drafted = found.drafted if isinstance(found, Proposal) else found
            return drafted.usage.cost if isinstance(drafted, Drafted) else draw.price


class EarlyDraw:
    """The draw that a conversation requested ahead of time, if it holds one."""

    def __init__(self) -> None:
        self._draw: Draw | None = None

    @property
    def place(self) -> Place | None:
        """Position of the conversation at the request; None without a draw."""
        return self._draw.place if self._draw else None

    @property
    def in_flight(self) -> bool:
        return self._draw is not None and not self._draw.done

    @property
    def has_come(self) -> bool:
        return self._draw is not None and self._draw.done

    def hold(self, draw: Draw) -> None:
        """Keep a draw until it is needed."""
        self._draw = draw

    def take(self, draws: Draws, runtime: Runtime[object]) -> Draw | None:
        """Hand over the draw, unless waiting for it would be useless."""
        if self._draw is not None and not self._draw.is_worth_waiting_for(runtime):
            self.discard(draws)
        draw, self._draw = self._draw, None
        return draw

    def discard(self, draws: Draws) -> float | None:
        """Release the draw and return its cost in USD, None if unknown."""
        draw, self._draw = self._draw, None
        if draw is None:
            return 0.0
        return draw.price if draws.release(draw) else draws.bill(draw)


def _goes_on(loop: asyncio.AbstractEventLoop | None, runtime: Runtime[object]) -> bool:
    """True if work on that loop, or on a thread if None, makes progress while a call waits in that runtime."""
    return loop is None or (loop.is_running() and loop is not runtime.stopped)


draws_over = PerStore(Draws)
"""Returns the draws that all sessions over a store share."""
