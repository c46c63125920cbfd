"""Long conversations at budgets that people really set: requests, events, time and cost.

    python benchmarks/long_runs.py [--out docs/results/long-runs.md]      # some ten minutes

Recorded runs of one kind are put one behind the other into one conversation of about 400,000 tokens, as a user does who
gives an agent one task after the other. At each assistant turn its history goes through `session.view`, with the
offline draft and the defaults. Costs are those of `session_cost.py`: cached prefixes at the read price, sketches paid
for as if gpt-5-mini had written them. Time is that of `session.view` alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from focusctx import Focus
from focusctx.replay.walk import calls_of
from focusctx.types import Message
from page import SHARED, options, publish, quiet
from session_cost import DRAFT, PricedDraft, counter, fresh_of, known_price, size, turns_of

KINDS = {
    "coding": "trajectories/swebench_deepseek.jsonl",
    "dialogues": "trajectories/tau2_gpt-4.1_retail.jsonl",
    "office": "live/office_runs.jsonl",
}
BUDGETS = (20_000, 50_000, 100_000)
MODELS = ("gpt-5", "claude-sonnet-5")
LENGTH = 400_000
TEXT = """\
# Long conversations

Made by `python benchmarks/long_runs.py --out docs/results/long-runs.md` from recorded runs, put one behind the other
into one conversation of about 400,000 tokens, with no model: the offline draft, the defaults, no language model goes on
from what is left.

**What went against us.** What may never go adds up. In a conversation of 400,000 tokens the user's words alone are
10,000 to 19,000 tokens, so a budget of 20,000 cannot be kept, and each event says so (`result.warnings`). Old deeds
are told in a line each (in the office runs 22,000 tokens for 247 steps, whose records took 48,000; in the coding runs
7,500 for 294, which took 17,600), but every deed has its line. In dialogues a line would have to move past the user's
words, so nearly all records stay. In the office runs the largest part at the end, 37,000 tokens, are look-ups that
the next task repeated: each counts as missed and stays whole. In so long a conversation choose a budget above that,
or begin a new one per task.

- *Sent* and *largest request* are tokens of all requests and of the largest one; *full* is the same without focusctx.
- *Cost* is input at caching prices with drafts paid for as gpt-5-mini's, as in [session-cost.md](session-cost.md). It
  assumes that calls come fast enough for the cache to stay warm.
- *ms* are those of `session.view` on two shared cores with little other work: under load they were about ten times as
  long. A request without an event reads only what is new.
"""


@dataclass(frozen=True)
class Long:
    """One conversation at one budget."""

    kind: str
    budget: int
    requests: int
    events: int
    sent: int
    full: int
    largest: int
    step: float
    """Median milliseconds of a request without an event."""
    event: float
    """Median milliseconds of a request with one."""
    costs: dict[str, tuple[float, float]]
    """USD without focusctx and with it, by model."""


def conversation(path: Path) -> list[Message]:
    """Return recorded runs as one conversation: one system prompt, and every call id its own."""
    messages: list[Message] = []
    tokens = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        for message in _renamed(json.loads(line)["messages"], number):
            if message["role"] != "system" or not messages:
                messages.append(message)
                tokens += size(message)
        if tokens >= LENGTH:
            break
    return messages


def _renamed(messages: Sequence[dict[str, Any]], run: int) -> Iterator[dict[str, Any]]:
    """Yield a run's messages up to its last finished step, with the run's number in every call id."""
    last = max(place for place, message in enumerate(messages) if message["role"] in ("tool", "user"))
    for message in messages[: last + 1]:
        changed = dict(message)
        if calls := message.get("tool_calls"):
            changed["tool_calls"] = [{**call, "id": f"{run}-{call['id']}"} for call in calls]
        if "tool_call_id" in message:
            changed["tool_call_id"] = f"{run}-{message['tool_call_id']}"
        yield changed


def walk(kind: str, budget: int) -> Long:
    """Send the conversation of one kind through a session."""
    quiet()
    messages = conversation(SHARED / KINDS[kind])
    turns = turns_of(messages)
    draft = PricedDraft()
    views: list[Sequence[Message]] = []
    idle, busy = list[float](), list[float]()
    largest = 0
    with Focus(draft, budget=budget, tokens=counter().count).session() as session:
        for number, turn in enumerate(turns):
            draft.call = number
            before = sum(event.happened for event in session.events)
            started = time.perf_counter()
            views.append(session.view(messages[:turn]))
            taken = 1000 * (time.perf_counter() - started)
            happened = sum(event.happened for event in session.events) > before
            (busy if happened else idle).append(taken)
            largest = max(largest, session.size[1])
        events = sum(event.happened for event in session.events)
    ours = calls_of(views, fresh_of(turns), size)
    whole = calls_of([messages[:turn] for turn in turns], fresh_of(turns), size)
    drafts = sum(draw.cost(known_price(DRAFT)) for draw in draft.draws)
    costs = {
        model: (
            sum(call.cost(known_price(model)) for call in whole),
            sum(call.cost(known_price(model)) for call in ours) + drafts,
        )
        for model in MODELS
    }
    return Long(
        kind,
        budget,
        len(turns),
        events,
        sum(call.tokens for call in ours),
        sum(call.tokens for call in whole),
        largest,
        statistics.median(idle),
        statistics.median(busy) if busy else 0.0,
        costs,
    )


def text_of(found: Iterable[Long]) -> str:
    heads = ["kind", "δ", "requests", "events", "sent, of full", "largest request", "ms", "ms with an event"]
    heads += [f"cost at {model}'s prices" for model in MODELS]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for one in found:
        cells = [one.kind, f"{one.budget:,}", f"{one.requests:,}", str(one.events), f"{one.sent / one.full:.0%}"]
        cells += [f"{one.largest / one.budget:.2f} δ", f"{one.step:.1f}", f"{one.event:,.0f}"]
        cells += [f"${full:,.2f} → ${ours:,.2f}" for full, ours in one.costs.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return f"{TEXT}\n" + "\n".join(lines) + "\n"


def main() -> int:
    out = options("Long conversations of recorded runs: events, time and cost.").parse_args().out
    with ProcessPoolExecutor(2) as pool:
        return publish(lambda: text_of(pool.map(walk, *zip(*product(KINDS, BUDGETS), strict=True))), out)


if __name__ == "__main__":
    sys.exit(main())
