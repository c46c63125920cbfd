"""MCP: `python -m focusctx.integrations.mcp --store sqlite:///focus.db --tenant NAME --conversation ID`.

Two tools over the store of sessions: one brings back a step that was left out, one says why it was left out. For agents
whose tools come from MCP servers, and for people who look at a run from their own client.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import StoreError
from ..session.recall import TOOL, answer, find, ranges, unavailable
from ..session.store import Archived, Store, StoredEvent
from ..session.stores import store_from
from .plug import needs

with needs("mcp"):
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

_SEARCHED = 200
"""Newest events of the tenant whose steps are searched."""
_SHOWN = 10
_READS = ToolAnnotations(readOnlyHint=True)

_INSTRUCTIONS = """\
Steps of an agent's history that were left out to save space are archived, word for word. They have ids such as s_7."""
_RECALL = """\
Bring back an earlier step of the conversation that was left out to save space, word for word. `query` is its id, such \
as s_7, or a few words that occurred in it. `conversation` is needed only when an answer asks for it."""
_EXPLAIN = """\
Say why and when a step was left out. `query` is its id, such as s_7, or a few words that occurred in it; without one, \
what was left out lately, and what that saved. `conversation` is needed only when an answer asks for it."""


def server(store: str | Store, tenant: str = "default", conversation: str | None = None) -> MCPServer:
    """Return a server for one tenant's part of a store, or for one conversation in it; `run()` it.

    The tools have no argument for the tenant: a model must not choose it.
    """
    archive = _Archive(store_from(store), tenant, conversation)
    mcp = MCPServer("focusctx", instructions=_INSTRUCTIONS)

    @mcp.tool(TOOL, description=_RECALL, annotations=_READS, structured_output=False)
    def recall(query: str, conversation: str = "") -> str:
        try:
            found = archive.find(query, conversation)
        except StoreError:
            return unavailable(query)
        return found if isinstance(found, str) else answer(query, found.spans, found.all)

    @mcp.tool("explain_step", description=_EXPLAIN, annotations=_READS, structured_output=False)
    def explain(query: str = "", conversation: str = "") -> str:
        try:
            if not query.strip():
                return archive.overview()
            found = archive.find(query, conversation)
        except StoreError:
            return unavailable(query)
        if isinstance(found, str):
            return found
        reasons = [_reason(span, found.events.get(span.event)) for span in found.spans]
        return "\n".join(reasons) or answer(query, found.spans, found.all)

    return mcp


@dataclass(frozen=True, slots=True)
class _Found:
    spans: Sequence[Archived]
    all: Sequence[Archived]
    """Everything that was left out of that conversation."""
    events: Mapping[str, StoredEvent]


class _Archive:
    """The steps that were left out of one tenant's conversations. Step ids count from 1 in each."""

    def __init__(self, store: Store, tenant: str, conversation: str | None) -> None:
        self._store = store
        self._tenant = tenant
        self._conversation = conversation

    def find(self, query: str, conversation: str) -> _Found | str:
        """Return the steps that the query names in one conversation, or ask which conversation is meant."""
        events = {event.key: event for event in self._recent(_SEARCHED)}
        numbered: dict[str, dict[int, Archived]] = {}
        for span in reversed(self._store.archived(self._tenant, list(events))):  # of equal numbers the newest counts
            numbered.setdefault(events[span.event].conversation, {})[span.index] = span
        known = {name: [spans[index] for index in sorted(spans)] for name, spans in numbered.items()}
        if conversation:
            known = {conversation: known.get(conversation, [])}
        found = {name: find(query, spans) for name, spans in known.items()}
        hits = [name for name, spans in found.items() if spans]
        if len({tuple(span.key for span in found[name]) for name in hits}) > 1:
            names = ", ".join(hits)
            return f"There are such steps in {len(hits)} conversations. Call again with one of them: {names}."
        chosen = hits[0] if hits else next(iter(known), "")
        is_all = known.get(chosen, []) if hits or len(known) == 1 else []
        return _Found(found.get(chosen, ()), is_all, events)

    def overview(self) -> str:
        """Return the totals of the tenant and the latest events as text."""
        totals = self._store.totals(self._tenant)
        net = "net saving unknown: the draft has no known price" if totals.net is None else f"${totals.net:.4f} net"
        saved = f"{totals.events} events, {totals.tokens_saved} tokens less sent in all calls, {net}."
        events = [event for event in self._recent(_SHOWN) if event.dropped]
        return "\n".join(
            [saved, *(f"{event.conversation}: {self._steps(event)} left out {_when(event)}." for event in events)]
        )

    def _recent(self, most: int) -> list[StoredEvent]:
        events = self._store.recent(self._tenant, most)
        return [event for event in events if self._conversation in (None, event.conversation)]

    def _steps(self, event: StoredEvent) -> str:
        return ranges([span.index for span in self._store.archived(self._tenant, [event.key])])


def _reason(span: Archived, event: StoredEvent | None) -> str:
    cited = f"{span.utility:.0%} of the sketches cite it"
    said = f"s_{span.index}, {span.tokens} tokens: {cited}; {span.reason}."
    return said if event is None else f"{said} Left out {_when(event)}."


def _when(event: StoredEvent) -> str:
    when = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"on {when}, when s_{event.index} was new: {event.tokens_before} → {event.tokens_after} tokens"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m focusctx.integrations.mcp", description=_INSTRUCTIONS)
    parser.add_argument("--store", required=True, help="the store of the agent's sessions, e.g. sqlite:///focus.db")
    parser.add_argument("--tenant", default="default", help="the `tenant` of the agent's sessions")
    parser.add_argument(
        "--conversation", help="the `id` that the agent gives its session (default: all conversations of the tenant)"
    )
    given = parser.parse_args(arguments)
    server(given.store, given.tenant, given.conversation).run()


if __name__ == "__main__":
    main()
