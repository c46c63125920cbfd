"""MCP: `python -m focusctx.integrations.mcp --store sqlite:///focus.db --tenant NAME`.

Two tools over what sessions have stored: one brings a step back that was left out, one says why it was. For agents
whose tools come from MCP servers, and for people who look at a run from their own client.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from ..errors import StoreError
from ..session.recall import TOOL, answer, find, ranges, unavailable
from ..session.store import Archived, Store, StoredEvent
from ..session.stores import store_from
from .plug import needs

with needs("mcp"):
    from mcp.server import MCPServer

_SEARCHED = 200
"""Events whose steps are looked through, the newest of the tenant."""
_SHOWN = 10

_INSTRUCTIONS = """\
Steps of an agent's history that were left out to save space are archived, word for word. They have ids such as s_7."""
_RECALL = """\
Bring back an earlier step of the conversation that was left out to save space, word for word. `query` is its id, such \
as s_7, or a few words that occurred in it."""
_EXPLAIN = """\
Say why and when a step was left out. `query` is its id, such as s_7, or a few words that occurred in it; without one, \
what was left out lately, and what that saved."""


def server(store: str | Store, tenant: str = "default") -> MCPServer:
    """The server over a store; `run()` it, over stdio unless told otherwise."""
    stored = store_from(store)
    mcp = MCPServer("focusctx", instructions=_INSTRUCTIONS)

    @mcp.tool(TOOL, description=_RECALL, structured_output=False)
    def recall(query: str) -> str:
        try:
            archived = _archived(stored, tenant)
        except StoreError:
            return unavailable(query)
        return answer(query, find(query, archived), archived)

    @mcp.tool("explain_step", description=_EXPLAIN, structured_output=False)
    def explain(query: str = "") -> str:
        try:
            if not query.strip():
                return _overview(stored, tenant)
            archived = _archived(stored, tenant)
            found = find(query, archived)
            events = stored.events(tenant, [span.event for span in found])
        except StoreError:
            return unavailable(query)
        reasons = [_reason(span, events.get(span.event)) for span in found]
        return "\n".join(reasons) or answer(query, found, archived)

    return mcp


def _archived(store: Store, tenant: str) -> list[Archived]:
    """What was left out lately. Of steps with the same number, in several conversations, the one that went last."""
    events = [event.key for event in store.recent(tenant, _SEARCHED)]
    spans = {span.index: span for span in reversed(store.archived(tenant, events))}
    return [spans[index] for index in sorted(spans)]


def _reason(span: Archived, event: StoredEvent | None) -> str:
    cited = f"{span.utility:.0%} of the sketches cite it"
    said = f"s_{span.index}, {span.tokens} tokens: {cited}; {span.reason}."
    return said if event is None else f"{said} Left out {_told(event)}."


def _told(event: StoredEvent) -> str:
    when = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"on {when}, when s_{event.index} was new: {event.tokens_before} → {event.tokens_after} tokens"


def _overview(store: Store, tenant: str) -> str:
    totals = store.totals(tenant)
    net = "net saving unknown, for the draft has no known price" if totals.net is None else f"${totals.net:.4f} net"
    saved = f"{totals.events} events, {totals.tokens_saved} tokens less sent in all calls, {net}."
    events = [event for event in store.recent(tenant, _SHOWN) if event.dropped]
    return "\n".join([saved, *(f"{_steps(store, tenant, event)} left out {_told(event)}." for event in events)])


def _steps(store: Store, tenant: str, event: StoredEvent) -> str:
    return ranges([span.index for span in store.archived(tenant, [event.key])])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m focusctx.integrations.mcp", description=_INSTRUCTIONS)
    parser.add_argument("--store", required=True, help="where the agent's sessions store, e.g. sqlite:///focus.db")
    parser.add_argument("--tenant", default="default", help="whose steps; the `tenant` of the agent's sessions")
    given = parser.parse_args(arguments)
    server(given.store, given.tenant).run()


if __name__ == "__main__":
    main()
