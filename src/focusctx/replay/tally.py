"""Progress of a long command: units by part of the work, and the cost so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


class Spending:
    """USD spent over the whole run, earlier invocations included."""

    def __init__(self, limit: float | None = None, before: float = 0.0) -> None:
        self.limit = limit
        self.total = before
        self.unpriced = False
        """True once a model without a known price was asked: the total is then too low."""

    @property
    def is_used_up(self) -> bool:
        return self.limit is not None and self.total >= self.limit


@dataclass(slots=True)
class Tally:
    """Units by part of the work: a benchmark, a file of recorded runs."""

    planned: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    """Units done by earlier invocations."""
    done: dict[str, int] = field(default_factory=dict)
    """Units done by this invocation."""
    failed: dict[str, int] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    began: float = field(default_factory=time.monotonic)
    stopped: str | None = None
    """Why the run stopped before everything was done."""
    last_problem: str = ""

    @property
    def rate(self) -> float:
        """Units per second of this invocation."""
        return sum(self.done.values()) / max(time.monotonic() - self.began, 1e-9)

    @property
    def left(self) -> int:
        """Units that still have no record."""
        return sum(self.planned.values()) - sum(self.before.values()) - sum(self.done.values())
