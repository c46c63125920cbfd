"""Reading a conversation's decisions from the store, and the record of a new one."""

from __future__ import annotations

from .conversation import Conversation, Known
from .proposal import Proposal
from .store import Store, StoredEvent


def look_up(store: Store, conversation: Conversation) -> Known:
    """Read what was decided on this chain, by any process. Asks only about what is new, unless something changed.

    A decision was made for the future of one history: it holds where that history goes on, and not where a shorter
    one, a fork or the same task begun again, may still go another way. So the chain is asked for its events first.
    May run on a thread of its own, and be given up on: it changes nothing.
    """
    tenant = conversation.tenant
    version = store.version(tenant, conversation.root)  # first: what comes meanwhile is found next time
    is_same = version == conversation.version
    if is_same and (conversation.knows_all or not version):
        return Known(version, is_all=True)
    first = conversation.looked_up if is_same else 0
    keys = conversation.keys[first : conversation.settled]
    if not keys:
        return Known(version)
    events = list(store.events(tenant, keys).values())
    named = {conversation.restore_key(key): key for event in events for key in event.dropped}
    restored = [named[key] for key in store.restored(tenant, list(named))] if named else ()
    return Known(version, first, events, restored, is_all=first == 0 and len(events) == version)


def event_of(conversation: Conversation, proposal: Proposal | None, time: float, balance: float) -> StoredEvent:
    """The record of an event; without a proposal, of sketches that were read and dropped nothing.

    Its key is that of the newest span that can change no more: the newest of all may still get results.
    """
    return StoredEvent(
        key=conversation.keys[conversation.settled - 1],
        index=conversation.reader.newest,
        tokens_before=conversation.tokens,
        tokens_after=proposal.change.tokens if proposal else conversation.tokens,
        dropped=proposal.dropped if proposal else (),
        skeletons=proposal.skeletons if proposal else (),
        time=time,
        balance=balance,
        conversation=conversation.id or conversation.key,
    )
