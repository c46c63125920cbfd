"""Read a conversation's decisions from the store, and build the record of a new one."""

from __future__ import annotations

from .conversation import Conversation, Known
from .proposal import Proposal
from .store import Store, StoredEvent


def look_up(store: Store, conversation: Conversation) -> Known:
    """Read what any process decided on this chain. Asks only about new spans, unless something changed.

    A decision was made for the future of one history. It holds where that history continues, and not in a shorter one
    (a fork, or the same task started again) that may still go another way. So the chain is asked for its events first.
    May run on its own thread and be abandoned: it changes nothing.
    """
    tenant = conversation.tenant
    version = store.version(tenant, conversation.root)  # read first: later changes are found next time
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
    """Build the record of an event; without a proposal, of sketches that dropped nothing.

    Its key is that of the newest span that can no longer change: the newest of all may still get results.
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
