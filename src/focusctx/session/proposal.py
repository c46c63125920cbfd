"""What sketches come to. It is worked out when they arrive, about the conversation as it was when they were asked for,
so that the call in which it is acted on has little left to do: what came since stays, and is put behind it."""

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
from ..invariants import violations
from ..pipeline.evidence import reasons, with_earlier, with_newer
from ..types import Result, Span
from .cut import Cut
from .moment import Change, Moment
from .recall import pinned_recalls
from .store import Archived
from .stores.encoding import Originals, pack_all

_AT_THE_BUDGET = 1.05
"""Times the budget: the size of a view for which the room was reckoned ahead of time."""


class Proposal(NamedTuple):
    moment: Moment
    drafted: Drafted
    result: Result
    change: Change
    illegal: str | None
    """Why the provider would refuse the view, if it would."""
    originals: Originals
    """Of the spans that would go, verbatim."""
    news: Cut
    """What the event would tell of: the spans that would go or be left as skeletons."""
    dropped: tuple[str, ...]
    """The chain keys of these."""
    skeletons: tuple[str, ...]
    """Those of them of which a skeleton would be left."""

    @property
    def saves(self) -> int:
        """Tokens of the view that would go."""
        return self.moment.tokens - self.change.tokens

    @property
    def behind(self) -> int:
        """Tokens that would stay behind the first one to go."""
        return self.change.tokens - self.change.unmoved


async def foresee(focus: Focus, moment: Moment) -> Proposal:
    """Ask for sketches, and work out what they come to: all of an event that takes time."""
    drafted = await focus.sketch(moment.remaining())
    return await asyncio.to_thread(propose, focus, moment, drafted)


def propose(focus: Focus, moment: Moment, drafted: Drafted) -> Proposal:
    history = moment.remaining()
    result = focus.decide(history, drafted, {**pinned_recalls(history), **moment.restored})
    result = _with_earlier(result, moment.place.cut.skeletons)
    change = moment.change_to(moment.decided.then(result.dropped, result.skeletons))
    result = replace(result, messages=change.view, tokens_after=change.tokens)
    broken = violations(change.view, history.format)
    news = change.cut.since(moment.place.cut)
    originals = Originals(_originals(moment, result, news))
    with suppress(StoreError):  # the store will say so again
        pack_all(originals)
    return Proposal(
        moment,
        drafted,
        result,
        change,
        str(broken[0]) if broken else None,
        originals,
        news,
        _keys(moment, news.dropped),
        _keys(moment, news.skeletons),
    )


def up_to_date(proposal: Proposal, now: Moment, focus: Focus) -> Proposal:
    """The same for a conversation that has gone on.

    What came since follows a span that stays whole, as it does in the history: no provider finds more fault with it.
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
    """Whether what came since is behind it all, leaves the room that was filled, and needs nothing that would go."""
    then, gone = proposal.moment.history, proposal.change.cut.dropped
    roomy = max(_AT_THE_BUDGET * now.config.budget, proposal.moment.tokens)
    since = now.history.owners[len(then.messages) :]
    owners = chain.from_iterable((owner,) if isinstance(owner, int) else owner for owner in since)
    return (
        (proposal.drafted.offers is None or now.tokens <= roomy)
        and now.decided == proposal.moment.decided
        and all(map(is_, then.messages, now.history.messages))  # the caller's own objects go back
        and all(owner == 0 or owner >= then.newest for owner in owners)
        and not any(span.needs in gone for span in now.history.spans[len(then.spans) :])
    )


def _with_earlier(result: Result, skeletons: Collection[int]) -> Result:
    """What an earlier event left of a span and this one keeps is no whole span."""
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
    """With what was the newest span then, as it is now, and with those that came after it."""
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
    """The spans that would go, verbatim; those of which a skeleton was left went before."""
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
