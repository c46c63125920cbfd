"""What one tenant's store knows of a conversation, and what it is told of an event."""

from __future__ import annotations

from ..errors import StoreError
from ..types import Decision, Result, Span
from .conversation import Change, Conversation, Known
from .store import Archived, Store, StoredEvent


def look_up(store: Store, tenant: str, conversation: Conversation) -> Known | StoreError:
    """What was decided on this chain, by whomever. Asks only about what is new, unless something changed.

    A decision was made for the future of one history: it holds where that history goes on, and not where a shorter
    one, a fork or the same task begun again, may still go another way. So the chain is asked for its events first.
    May run on a thread of its own, and be given up on: it changes nothing.
    """
    try:
        version = store.version(tenant, conversation.root)  # first: what comes meanwhile is found next time
        first = conversation.looked_up if version == conversation.version else 0
        keys = conversation.keys[first : conversation.settled]
        if not keys or not (version or conversation.version):
            return Known(version)
        events = list(store.events(tenant, keys).values())
        named = list(dict.fromkeys(key for event in events for key in event.dropped))
        return Known(version, first, store.dropped(tenant, named) if named else (), events)
    except StoreError as error:
        return error


def event_of(conversation: Conversation, change: Change | None, time: float, balance: float) -> StoredEvent:
    """The record of an event; without a change, of sketches that were read and dropped nothing.

    Its key is that of the newest span that can change no more: the newest of all may still get results.
    """
    dropped = sorted(change.dropped - conversation.dropped) if change else []
    return StoredEvent(
        key=conversation.keys[conversation.settled - 1],
        index=conversation.reader.newest,
        tokens_before=conversation.tokens,
        tokens_after=change.tokens if change else conversation.tokens,
        dropped=tuple(conversation.keys[index - 1] for index in dropped),
        time=time,
        balance=balance,
    )


def write(
    store: Store, tenant: str, conversation: Conversation, event: StoredEvent, result: Result
) -> StoredEvent | StoreError:
    """The event as it stands in the store now. May run on a thread of its own, like `look_up`."""
    try:
        return store.commit(tenant, conversation.root, event, _originals(conversation, event, result))
    except StoreError as error:
        return error


def _originals(conversation: Conversation, event: StoredEvent, result: Result) -> list[Archived]:
    """The spans the event drops, verbatim."""
    spans = {span.index: span for span in conversation.reader.history().spans}
    decisions = {decision.index: decision for decision in result.decisions}
    going = set(event.dropped)
    return [
        _archived(key, spans[index], decisions[index], event.key)
        for index, key in enumerate(conversation.keys, 1)
        if key in going
    ]


def _archived(key: str, span: Span, decision: Decision, event: str) -> Archived:
    return Archived(
        key=key,
        index=span.index,
        messages=span.messages,
        text="\n".join(filter(None, (span.thought, span.action, span.observation))),
        tokens=span.tokens,
        utility=decision.utility,
        reason="; ".join(decision.reasons) or "no sketch needs it",
        event=event,
    )
