"""What `session.view` costs at step t: it should depend on the new messages, not on t.

One more step of about 1,000 tokens on histories of 10, 100, 1,000 and 10,000 spans, warm sessions, taken in turns
in one run. Medians, and ratios against 10 spans; the bar is 1.5 at 1,000 spans. Five situations:

- `whole`: nothing was ever due, the view is the history;
- `copies`: the same, but the caller builds its messages anew at every step, as a proxy does;
- `compressed`: nearly all of the past is dropped;
- `near δ`: the same, and sketches that were asked for ahead of time are waiting to be used;
- `event`: the draft's own time left out. Rare by the growth rule, and it may cost more in a longer history.

    python benchmarks/session_view.py             # --profile: where the time goes at 10,000 spans
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from focusctx import Focus
from focusctx.drafts import ScriptedDraft
from focusctx.session.session import Session
from overhead import Messages, step

LENGTHS = (10, 100, 1000, 10_000)
STORES = ("memory", "sqlite")
BAR = 1.5
SITUATIONS = ("whole", "compressed", "near δ", "copies")
BARRED = SITUATIONS[:3]
STEPS = 32
WARM_UP = 2
TEXTS = 100
"""Past steps share this many texts, which saves minutes of setup; a step that is timed has a text of its own."""
BUDGET = 8000
"""A step is about 1,000 tokens: about every seventh is an event."""
AHEAD = {"near δ": 0.5}
"""Half of δ is early, so that most steps are such steps; everywhere else, nothing is asked for ahead of time."""
FORGETFUL = "Step: go on from the newest step | Depends on: []\nRescued Spans: [] | Reason: none"


def past(spans: int) -> Messages:
    texts = [step(number, random.Random(number))[1]["content"] for number in range(min(spans, TEXTS))]
    messages: Messages = [
        {"role": "system", "content": "You work through a list."},
        {"role": "user", "content": "Go through all pages and report the total."},
    ]
    for number in range(spans):
        name = f"call_{number}"
        call = {"id": name, "type": "function", "function": {"name": "query", "arguments": f'{{"page": {number}}}'}}
        messages.append({"role": "assistant", "content": f"Next I look at page {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": name, "content": texts[number % TEXTS]})
    return messages


@dataclass
class Run:
    """One warm session, and how long each further step took."""

    session: Session
    messages: Messages
    situation: str
    spans: int
    rng: random.Random
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def go_on(self) -> None:
        """One more step, timed."""
        self.messages = self.messages + step(self.spans, self.rng)
        self.spans += 1
        if self.situation == "copies":
            self.messages = json.loads(json.dumps(self.messages))
        events = len(self.session.events)
        started = time.perf_counter()
        self.session.view(self.messages)
        seconds = time.perf_counter() - started
        event = len(self.session.events) > events
        self.taken["event" if event else self.situation].append(seconds)


def runs(folder: Path, lengths: Sequence[int], stores: Sequence[str]) -> Iterator[tuple[str, int, Run]]:
    """A warm session for each store, length and situation; all steps in a run of their own text."""
    for length in lengths:
        messages = past(length)
        for store in stores:
            for situation in SITUATIONS:
                url = "memory" if store == "memory" else f"sqlite:///{folder}/{SITUATIONS.index(situation)}-{length}.db"
                budget = BUDGET if situation in ("compressed", "near δ") else 10**9
                session = Focus(ScriptedDraft([FORGETFUL]), budget=budget).session(url, ahead=AHEAD.get(situation, 1.0))
                session.view(messages)
                rng = random.Random(f"{store} {situation} {length}")
                yield store, length, Run(session, messages, situation, length, rng)


def cold_open(folder: Path, spans: int) -> tuple[float, float]:
    """A fresh session's first view of a stored conversation, in another process's place: SQLite, nothing remembered.

    Against the first view of the same history where nothing is stored: both read every message.
    """
    messages = past(spans)
    url = f"sqlite:///{folder}/stored.db"
    Focus(ScriptedDraft([FORGETFUL]), budget=BUDGET).session(url).view(messages)

    def first_view(url: str) -> float:
        session = Focus(ScriptedDraft([FORGETFUL]), budget=10**9).session(url)
        started = time.perf_counter()
        session.view(messages)
        return time.perf_counter() - started

    turns = [(first_view(url), first_view(f"sqlite:///{folder}/empty.db")) for _ in range(5)]
    return min(stored for stored, _ in turns), min(empty for _, empty in turns)


def in_turns(every: Sequence[tuple[str, int, Run]], steps: int) -> None:
    for number in range(steps + WARM_UP):
        for _, _, run in every:
            if number == WARM_UP:
                run.taken.clear()
            run.go_on()


def table(every: Sequence[tuple[str, int, Run]]) -> list[str]:
    """Prints the medians; returns what is over the bar."""
    taken: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for store, length, run in every:
        for situation, times in run.taken.items():
            taken[store, situation, length] += times
    medians = {key: statistics.median(times) for key, times in taken.items()}
    print(f"| store | situation | {' | '.join(f'{length:,} spans' for length in LENGTHS)} | bar at 1,000 |")
    print(f"|---|---|{'---|' * len(LENGTHS)}---|")
    missed = []
    for store in STORES:
        for situation in (*SITUATIONS, "event"):
            times = [medians[store, situation, length] for length in LENGTHS]
            cells = [f"{seconds * 1e3:.2f} ms ×{seconds / times[0]:.2f}" for seconds in times]
            bar = f"{BAR}" if situation in BARRED else ""
            print(f"| {store} | {situation} | {' | '.join(cells)} | {bar} |")
            if bar and times[LENGTHS.index(1000)] > BAR * times[0]:
                missed.append(f"{store}, {situation}: ×{times[LENGTHS.index(1000)] / times[0]:.2f}")
    return missed


def profile(folder: Path) -> None:
    """Print where the time goes in a long history, situation by situation."""
    for store, length, run in runs(folder, (10_000,), ("memory",)):
        profiler = cProfile.Profile()
        work: Callable[[], None] = run.go_on
        for _ in range(STEPS):
            profiler.runcall(work)
        print(f"\n## {store}, {length:,} spans, {run.situation}")
        pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true", help="where the time goes at 10,000 spans, and no table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.profile:
            profile(folder)
            return 0
        every = list(runs(folder, LENGTHS, STORES))
        in_turns(every, STEPS)
        missed = table(every)
        stored, empty = cold_open(folder, 1000)
    print(f"\nA fresh session over a stored conversation of 1,000 spans: {stored * 1e3:.0f} ms for the first view,")
    print(f"×{stored / empty:.2f} of the same history where nothing is stored (both read and count every message).")
    for miss in missed:
        print(f"over the bar of {BAR}: {miss}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
