"""What is sent: 32 conversations, of each what comes before (not measured) and the requests that are measured.

- `growing`: the whole history, one step longer with every request;
- `same`: one request again and again, the simplest there is;
- `crossing`: the one request in which a history grows beyond the budget.

All of them stand around the same place: the request in which the history crosses the size's budget.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from focusctx import Focus
from focusctx.drafts import ScriptedDraft

from .history import Conversation

WORKLOADS = ("growing", "same", "crossing")
STEP = 300
STEPS = 3


@dataclass(frozen=True)
class Size:
    """Histories of about that many tokens, and the budget that they cross. After it the next sketches are still far."""

    name: str
    budget: int
    higher: int
    """A budget that they come near and do not reach."""
    weight: int
    """Short requests are measured so many times as often."""
    keep_every: int
    """Of the steps before the crossing, every such one is kept; 0 for none, where few steps fill the budget again."""


SIZES = (Size("2k", 1900, 4100, 2, 0), Size("30k", 29_500, 40_000, 1, 2))


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    size: Size
    stream: bool
    workload: str

    @property
    def name(self) -> str:
        return f"{self.size.name} {'stream' if self.stream else 'whole'}"


@dataclass(frozen=True)
class Requests:
    """The requests of one conversation."""

    before: list[bytes]
    measured: list[bytes]


@lru_cache(maxsize=1)  # the contenders get the same ones, in turns
def conversations(cell: Cell, number: int, seed: str) -> list[Requests]:
    """Distinct ones for every cell and seed: a proxy that knows conversations has not seen them."""
    if cell.workload == "same":
        one = _conversation(cell, seed)
        return [Requests(one.before, one.measured[:1] * STEPS) for _ in range(number)]
    return [_conversation(cell, f"{seed}-{place}") for place in range(number)]


def _conversation(cell: Cell, seed: str) -> Requests:
    history = Conversation(f"{cell.name} {cell.workload} {seed}")
    below = b""
    while tokens(history) <= cell.size.budget:
        below = history.body(stream=cell.stream)
        history.step(STEP)
    across = history.body(stream=cell.stream)
    if cell.workload == "crossing":
        return Requests([below], [across])
    measured = []
    for _ in range(STEPS):
        history.step(STEP)
        measured.append(history.body(stream=cell.stream))
    return Requests([across], measured)


_counter = Focus(ScriptedDraft(["never asked"]), budget=10**9)


def tokens(history: Conversation) -> int:
    """As the budget is counted: without the system prompt."""
    return _counter.compress([json.loads(message) for message in history.messages]).tokens_before
