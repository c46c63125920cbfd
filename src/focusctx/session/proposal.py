"""A snapshot of a conversation, and the proposal for it: the change of the view that a set of sketches leads to.

A proposal is computed when the sketches arrive, for the conversation as it was when they were requested, so that the
call that applies it has little left to do: later messages stay, and are appended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import is_

from ..compressor import Focus
from ..config import FocusConfig
from ..errors import StoreError
from ..pipeline.decide import Drafted, decide, reasons, report
from ..pipeline.keep import Selection, excess_of, survey, target_tokens
from ..pipeline.must_stay import NEWER, NEWEST, companions_of, pinned_spans, repeated_lookups
from ..pipeline.outline import Outlines, Parts, has_result, joint_records
from ..pipeline.rebuild import rebuild, refusal
from ..pipeline.split import Count, tokens_of
from ..types import History, Message, Result
from ..wire import wire_named
from .recall import note, pinned_recalls
from .store import Archived, Originals, Spelled, pack_all

_log = logging.getLogger("focusctx")
_TRIES = 3
"""Times that a selection is made anew, with less room, because of the note on what it leaves out."""
_EARLIER = "what an earlier event left of it"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The spans that a view does not show whole. Their originals are in the store."""

    spans: frozenset[int] = frozenset()
    """Every one of these spans, those that are shown in part included."""
    shown: Mapping[int, Parts] = field(default_factory=dict)
    """The passages that are shown of some; none for a record."""

    def __hash__(self) -> int:
        return hash((self.spans, frozenset(self.shown.items())))

    @property
    def gone(self) -> frozenset[int]:
        """The spans that are not shown at all."""
        return self.spans - self.shown.keys()

    def then(self, later: LeftOut) -> LeftOut:
        """Leave more out. What an earlier event left of a span may shrink further, or go."""
        shown = {index: parts for index, parts in self.shown.items() if index not in later.spans}
        return LeftOut(self.spans | later.spans, {**shown, **later.shown})

    def without(self, spans: Collection[int]) -> LeftOut:
        """Bring these spans back."""
        shown = {index: parts for index, parts in self.shown.items() if index not in spans}
        return LeftOut(self.spans.difference(spans), shown)

    def showing(self, passages: Mapping[int, Parts]) -> LeftOut:
        """Show these passages of spans that are left out."""
        more = {index: self.shown.get(index, frozenset()) | parts for index, parts in passages.items()}
        return LeftOut(self.spans, {**self.shown, **{i: parts for i, parts in more.items() if i in self.spans}})

    def shows_more_than(self, other: LeftOut) -> bool:
        """True if a span or a passage is shown that the other leaves out."""
        both = self.shown.keys() & other.shown.keys()
        return (
            not other.spans <= self.spans
            or not self.gone >= other.gone
            or any(self.shown[index] - other.shown[index] for index in both)
        )

    def since(self, earlier: LeftOut) -> LeftOut:
        """The changes that lead from `earlier` to this: `earlier.then(…)` of them gives this."""
        before = {index: earlier.shown.get(index) for index in earlier.spans}
        news = frozenset(i for i in self.spans if i not in before or self.shown.get(i) != before[i])
        return LeftOut(news, {index: self.shown[index] for index in news if index in self.shown})


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
    cut_at: Mapping[int, int]
    """For each span that was left out, the newest span at that time."""
    view: Sequence[Message]
    tokens: int
    """Tokens of the view."""
    config: FocusConfig
    count: Count
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
        if not self.config.levels and self.config.target is None:
            return {}
        return repeated_lookups(self.history.spans, self.cut_at, self.config.reads)

    def pinned(self, history: History) -> dict[int, str]:
        """Return the spans of the remaining history that stay whole, with the reasons."""
        return {
            **pinned_spans(history, self.config.pin),
            **pinned_recalls(history),
            **self.regrets(),
            **self.restored,
        }

    def change_to(self, decided: LeftOut) -> Change:
        """Return the view that leaves this out, as far as it may be left out."""
        left_out = _possible(self.history, decided.showing(self.passages_back), self.config)
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
        return [tokens_of(message, wire, self.count) if size is None else size for message, size in sizes]


def shortened_sizes(history: History, outlines: Outlines, left_out: LeftOut) -> dict[int, int]:
    """Return the tokens of the shortened spans, with the lines behind them that tell of spans that are gone."""
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


def _possible(history: History, decided: LeftOut, config: FocusConfig) -> LeftOut:
    """Return what can be left out here. The chain may have continued differently since: in a fork a span that was left
    out may be the newest, or hold the reasoning that the newest continues."""
    whole = {span.index for span in history.spans if span.index not in decided.spans}
    whole |= pinned_spans(history, config.pin).keys()
    needed = companions_of(history, whole | decided.shown.keys()).keys() - whole
    if history.outlines is None:
        return decided.without(whole | needed)
    left = decided.then(_records(needed)).without(whole)
    if any(span.index in left.shown and has_result(span, wire_named(history.format)) for span in history.spans):
        return left
    # No step is there that could tell of the deeds of others, so these keep their records.
    return left.then(_records([s.index for s in history.spans if s.index in left.gone and history.outlines.deeds(s)]))


def _records(spans: Collection[int]) -> LeftOut:
    return LeftOut(frozenset(spans), dict.fromkeys(spans, frozenset()))


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages the two lists share at the beginning."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return place
    return min(len(before), len(after))


@dataclass(frozen=True, slots=True)
class Proposal:
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

    def keys(self, spans: Collection[int]) -> tuple[str, ...]:
        """Return the chain keys of these spans."""
        return tuple(self.snapshot.keys[index - 1] for index in sorted(spans))

    def result(self, focus: Focus, started: float) -> Result:
        """Return the evidence for the event."""
        history, config = self.snapshot.remaining(), focus.config
        if self.drafted.failure is not None:
            return Result(
                messages=self.snapshot.view,
                compressed=False,
                kept=tuple(span.index for span in history.spans),
                sketches=self.drafted.sketches,
                tokens_before=history.tokens,
                tokens_after=history.tokens,
                usage=self.drafted.usage,
                failure=self.drafted.failure,
                history=history,
                prompt=config.prompt,
            )
        tokens = self.change.tokens
        selection = replace(self.selection, tokens=tokens, excess=excess_of(tokens, config))
        return report(
            self.change.view,
            history,
            self.drafted,
            selection,
            config=config,
            started=started,
            warnings=(history.doubts,) if history.doubts else (),
            regrets=tuple(sorted(self.snapshot.regrets())),
        )


async def foresee(focus: Focus, snapshot: Snapshot) -> Proposal:
    """Ask for sketches and compute their proposal: the slow part of an event."""
    drafted = await focus.sketch(snapshot.remaining())
    return await asyncio.to_thread(propose, focus, snapshot, drafted)


def propose(focus: Focus, snapshot: Snapshot, drafted: Drafted) -> Proposal:
    """Decide by the sketches, and build the view that follows."""
    history = snapshot.remaining()
    if drafted.failure is not None:
        _log.warning("history passed on uncompressed: %s", drafted.failure)
        same = Change(snapshot.place.left_out, list(snapshot.view), snapshot.tokens, snapshot.tokens, False)
        everything = frozenset(span.index for span in history.spans)
        nothing = Selection(everything, frozenset(), frozenset(), {})
        return Proposal(snapshot, drafted, nothing, same, None, Originals(), LeftOut())
    selection, change = _chosen(focus, snapshot, drafted, history)
    illegal = refusal(change.view, snapshot.history.messages, history.format)
    news = change.left_out.since(snapshot.place.left_out)
    originals = Originals(_originals(snapshot, drafted, news))
    with suppress(StoreError):  # the store will report the error again
        pack_all(originals)
    return Proposal(snapshot, drafted, selection, change, illegal, originals, news)


def _chosen(focus: Focus, snapshot: Snapshot, drafted: Drafted, history: History) -> tuple[Selection, Change]:
    """Return what stays, and the change of the view that follows."""
    config, pinned, regrets = focus.config, snapshot.pinned(history), snapshot.regrets()
    # Sketches sampled ahead of time see a history within the budget; what comes until it is full stays whole.
    coming = reserve = max(config.budget - history.tokens, 0)
    target = target_tokens(config)
    for _ in range(_TRIES):
        selection = decide(history, drafted, pinned, config, regrets=regrets, reserve=reserve)
        selection = _with_earlier(selection, history, snapshot.place.left_out)
        gone = {span.index for span in history.spans} - selection.kept - selection.shortened.keys()
        left = LeftOut(frozenset(gone | selection.shortened.keys()), selection.shortened)
        change = snapshot.change_by(left)
        if target is None or change.tokens <= max(target - coming, selection.tokens):
            break
        # The note on what was left out takes room, too.
        reserve = max(reserve + 1, coming + change.tokens - selection.tokens)
    back = {index: change.left_out.shown[index] for index in snapshot.passages_back if index in change.left_out.shown}
    if back:
        selection = replace(selection, kept=selection.kept - back.keys(), shortened={**selection.shortened, **back})
    if snapshot.history.outlines is not None:  # the lines that tell of steps that are gone may have moved
        sizes = shortened_sizes(snapshot.history, snapshot.history.outlines, change.left_out)
        selection = replace(selection, sizes={**selection.sizes, **sizes})
    return selection, change


def up_to_date(proposal: Proposal, now: Snapshot, focus: Focus) -> Proposal:
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
        survey_now = survey(now.remaining(), focus.config)  # new steps count, too
        return propose(focus, now, replace(proposal.drafted, survey=survey_now))
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
    target = target_tokens(now.config)
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
    plans = drafted.plans
    return [
        Archived(
            key=snapshot.keys[span.index - 1],
            index=span.index,
            messages=span.messages,
            tokens=span.tokens,
            utility=sum(span.index in plan.cited for plan in plans) / max(len(plans), 1),
            reason="; ".join(said.get(span.index, ())) or "no sketch needs it",
        )
        for span in snapshot.history.spans
        if span.index in going
    ]
