"""A proposal: the change that a set of sketches leads to.

It is computed when the sketches arrive, for the conversation as it was when they were requested, so that the call that
applies it has little left to do: later messages stay, and are appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from operator import is_
from typing import NamedTuple

from ..compressor import Drafted, Focus
from ..errors import StoreError
from ..pipeline.evidence import reasons, with_earlier, with_newer
from ..pipeline.legal import refusal
from ..types import Result, Span
from .cut import Cut
from .moment import Change, Moment
from .recall import pinned_recalls
from .store import Archived, Originals, pack_all

_AT_THE_BUDGET = 1.05
"""Multiple of the budget: the view size up to which a fill computed ahead of time still holds."""


class Proposal(NamedTuple):
    moment: Moment
    drafted: Drafted
    result: Result
    change: Change
    illegal: str | None
    """Why the provider would refuse the view, or None."""
    originals: Originals
    """Originals of the spans to be dropped, verbatim."""
    news: Cut
    """The spans newly dropped or left as skeletons, as the event will record them."""
    dropped: tuple[str, ...]
    """Chain keys of `news.dropped`."""
    skeletons: tuple[str, ...]
    """Chain keys of `news.skeletons`."""

    @property
    def saves(self) -> int:
        """Tokens that the view would lose."""
        return self.moment.tokens - self.change.tokens

    @property
    def behind(self) -> int:
        """Tokens that would stay behind the first dropped one."""
        return self.change.tokens - self.change.unmoved


async def foresee(focus: Focus, moment: Moment) -> Proposal:
    """Ask for sketches and compute their proposal: the slow part of an event."""
    drafted = await focus.sketch(moment.remaining())
    return await asyncio.to_thread(propose, focus, moment, drafted)


def propose(focus: Focus, moment: Moment, drafted: Drafted) -> Proposal:
    history = moment.remaining()
    result = focus.decide(history, drafted, {**pinned_recalls(history), **moment.restored})
    result = _with_earlier(result, moment.place.cut.skeletons)
    change = moment.change_to(moment.decided.then(result.dropped, result.skeletons))
    result = replace(result, messages=change.view, tokens_after=change.tokens)
    illegal = refusal(change.view, moment.history.messages, history.format)
    news = change.cut.since(moment.place.cut)
    originals = Originals(_originals(moment, result, news))
    with suppress(StoreError):  # the store will report the error again
        pack_all(originals)
    return Proposal(
        moment,
        drafted,
        result,
        change,
        illegal,
        originals,
        news,
        _keys(moment, news.dropped),
        _keys(moment, news.skeletons),
    )


def up_to_date(proposal: Proposal, now: Moment, focus: Focus) -> Proposal:
    """Bring a proposal up to date with a conversation that has grown.

    Newer messages follow a span that stays whole, as they do in the history, so no provider can newly object to them.
    """
    then, seen = proposal.moment, proposal.moment.place.messages
    if proposal.result.failure is not None:
        return proposal
    if not _holds(proposal, now):
        return propose(focus, now, proposal.drafted)
    new = now.history.messages[seen:]
    if not new:
        return proposal
    was = proposal.change
    tokens = was.tokens + sum(now.sizes[seen:])
    change = Change(was.cut, [*was.view, *new], tokens, was.unmoved, was.moves)
    spans = now.history.spans[len(then.history.spans) - 1 :]
    return proposal._replace(moment=now, result=_grown(proposal.result, spans, now, change), change=change)


def _holds(proposal: Proposal, now: Moment) -> bool:
    """True if the newer messages only append, leave the filled room valid, and need no span that would be dropped."""
    then, gone = proposal.moment.history, proposal.change.cut.dropped
    roomy = max(_AT_THE_BUDGET * now.config.budget, proposal.moment.tokens)
    since = now.history.owners[len(then.messages) :]
    owners = chain.from_iterable((owner,) if isinstance(owner, int) else owner for owner in since)
    return (
        (proposal.drafted.offers is None or now.tokens <= roomy)
        and now.decided == proposal.moment.decided
        and all(map(is_, then.messages, now.history.messages))  # the view must hold the caller's own objects
        and all(owner == 0 or owner >= then.newest for owner in owners)
        and not any(span.needs in gone for span in now.history.spans[len(then.spans) :])
    )


def _with_earlier(result: Result, skeletons: Collection[int]) -> Result:
    """Count spans that an earlier event left as skeletons, and this one keeps, as skeletons instead of whole spans."""
    kept = frozenset(skeletons).intersection(result.kept)
    if not kept:
        return result
    return replace(
        result,
        kept=tuple(index for index in result.kept if index not in kept),
        dropped=tuple(sorted(kept.union(result.dropped))),
        skeletons=tuple(sorted(kept.union(result.skeletons))),
        decisions=with_earlier(result.decisions, kept),
    )


def _grown(result: Result, spans: Sequence[Span], now: Moment, change: Change) -> Result:
    """Extend a result to the newer spans; the first of `spans` replaces the span that was newest then."""
    history = result.history
    assert history is not None
    newer = [span.index for span in spans[1:]]
    return replace(
        result,
        messages=change.view,
        kept=(*result.kept, *newer),
        pinned=(*result.pinned, *newer),
        utilities={**result.utilities, **dict.fromkeys(newer, 0.0)},
        decisions=with_newer(result.decisions, spans),
        history=replace(history, spans=(*history.spans[:-1], *spans), tokens=now.tokens),
        tokens_before=now.tokens,
        tokens_after=change.tokens,
    )


def _keys(moment: Moment, spans: Collection[int]) -> tuple[str, ...]:
    return tuple(moment.keys[index - 1] for index in sorted(spans))


def _originals(moment: Moment, result: Result, news: Cut) -> list[Archived]:
    """Return the originals of the spans to be dropped; those of earlier skeletons are stored already."""
    going = news.dropped - moment.place.cut.skeletons
    spans = [span for span in moment.history.spans if span.index in going]
    said = reasons(result.sketches, going)
    return [
        Archived(
            key=moment.keys[span.index - 1],
            index=span.index,
            messages=span.messages,
            tokens=span.tokens,
            utility=result.utilities.get(span.index, 0.0),
            reason="; ".join(said.get(span.index, ())) or "no sketch needs it",
        )
        for span in spans
    ]
