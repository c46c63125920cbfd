"""What focusctx itself costs, without the draft's own time, as ratios within this run.

1. One more step on a history of 1,000 spans (about a million tokens) against one more step on 10 spans: at most 1.5.
2. A whole event on 1,000 spans, counts remembered, against one pass of tiktoken over the same text: at most 0.05.
3. `import focusctx` against `import json, dataclasses, asyncio`: below 2.

Prints the table of docs/results/overhead.md, and exits 1 when a bar is missed.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from focusctx import Focus
from focusctx.drafts import ScriptedDraft
from tokens import published

Messages = list[dict[str, Any]]
WORDS = ("request", "order", "token", "error", "status", "payload", "user", "invoice", "path", "result", "total")
WORDS_PER_SPAN = 390  # with the numbers between them about 1,000 tokens


def step(number: int, rng: random.Random) -> Messages:
    """One tool call and its result, about 1,000 tokens of the kind tools print."""
    call = {"name": "query", "arguments": f'{{"page": {number}, "id": "{rng.getrandbits(48):x}"}}'}
    output = " ".join(
        f'"{rng.choice(WORDS)}": {rng.getrandbits(20)},' if place % 4 == 0 else rng.choice(WORDS)
        for place in range(WORDS_PER_SPAN)
    )
    return [
        {
            "role": "assistant",
            "content": f"Next I look at page {number}.",
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output},
    ]


def history(spans: int, seed: int = 0) -> Messages:
    rng = random.Random(seed)
    start: Messages = [
        {"role": "system", "content": "You work through a list."},
        {"role": "user", "content": "Go through all pages and report the total."},
    ]
    return start + [message for number in range(spans) for message in step(number, rng)]


def best_of(times: int, work: Callable[[], object]) -> float:
    """The fastest of several runs: noise only ever adds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def seconds_per_step(*lengths: int, rounds: int = 8, steps: int = 10) -> list[float]:
    """Return for each length the median cost of `compress` on a history that just grew by one step; taken in turns."""
    taken: list[list[float]] = [[] for _ in lengths]
    for _ in range(rounds):
        for times, spans in zip(taken, lengths, strict=True):
            focus = Focus(ScriptedDraft(["never asked"]), budget=10**9)
            messages = history(spans)
            focus.compress(messages)
            for number in range(steps):
                messages = messages + step(spans + number, random.Random(number))
                started = time.perf_counter()
                focus.compress(messages)
                times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in taken]


def seconds_per_event(spans: int) -> tuple[float, float, int]:
    """A whole event, one pass of tiktoken over the same text, and the size of the history."""
    messages = history(spans)
    cites = ", ".join(f"s_{index}" for index in range(1, spans, 5))
    draft = ScriptedDraft([f"Step: report the total | Depends on: [{cites}]\nRescued Spans: [s_2] | Reason: it failed"])
    focus = Focus(draft, budget=1000)
    tokens = focus.compress(messages).tokens_before
    event = best_of(7, lambda: focus.compress(messages))
    texts = [text for message in messages for text in _texts(message)]
    encode = published("cl100k_base").encode_ordinary
    counting = best_of(3, lambda: [encode(text) for text in texts])
    return event, counting, tokens


def _texts(message: dict[str, Any]) -> list[str]:
    return [message["content"], *(call["function"]["arguments"] for call in message.get("tool_calls", ()))]


def import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(9)]
    return min(float(run.stdout) for run in runs)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    short, long = seconds_per_step(10, 1000)
    event, counting, tokens = seconds_per_event(1000)
    ours, theirs = import_seconds("import focusctx"), import_seconds("import json, dataclasses, asyncio")
    rows = [
        ("one more step, 1,000 spans / 10 spans", long * 1e6, short * 1e6, "µs", long / short, 1.5),
        (
            f"event on 1,000 spans, {tokens:,} tokens / tiktoken",
            event * 1e3,
            counting * 1e3,
            "ms",
            event / counting,
            0.05,
        ),
        ("import focusctx / json, dataclasses, asyncio", ours * 1e3, theirs * 1e3, "ms", ours / theirs, 2.0),
    ]
    print("| what | ours | against | ratio | bar |\n|---|---|---|---|---|")
    for what, mine, other, unit, ratio, bar in rows:
        print(f"| {what} | {mine:.1f} {unit} | {other:.1f} {unit} | {ratio:.3f} | {bar} |")
    missed = [(what, ratio, bar) for what, *_, ratio, bar in rows if ratio > bar]
    for what, ratio, bar in missed:
        print(f"\nover the bar of {bar}: {what}: {ratio:.3f}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
