"""A proposal: the change that a set of sketches leads to.

It is computed when the sketches arrive, for the conversation as it was when they were requested, so that the call that
applies it has little left to do: later messages stay, and are appended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from operator import is_

from ..compressor import Focus
from ..errors import StoreError
from ..pipeline.budget import NEWER, NEWEST
from ..pipeline.decide import Drafted, decide, report
from ..pipeline.evidence import reasons
from ..pipeline.keep import Selection, excess_of, survey, target_tokens
from ..pipeline.legal import refusal
from ..types import History, Result
from .snapshot import Change, LeftOut, Snapshot, shortened_sizes
from .store import Archived, Originals, pack_all

_log = logging.getLogger("focusctx")
_TRIES = 3
"""Times that a selection is made anew, with less room, because of the note on what it leaves out."""
_EARLIER = "what an earlier event left of it"


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

    @property
    def saves(self) -> int:
        """Tokens that the view would lose."""
        return self.snapshot.tokens - self.change.tokens

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
        change = snapshot.change_to(snapshot.decided.then(left))
        if target is None or change.tokens <= max(target - coming, selection.tokens):
            break
        # The note on what was left out takes room, too.
        reserve = max(reserve + 1, coming + change.tokens - selection.tokens)
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
        return proposal if same else replace(proposal, snapshot=now, change=now.change_to(proposal.change.left_out))
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
