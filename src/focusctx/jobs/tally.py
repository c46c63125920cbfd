"""Progress of a job: items by part of the work, and their cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..errors import ConfigError


class Spending:
    """USD over the whole job, earlier sittings included."""

    def __init__(self, limit: float | None = None, before: float = 0.0) -> None:
        self.limit = limit
        self.total = before
        self.unpriced = False
        """True once a model without a known price was asked: the total is then too low."""

    @property
    def is_used_up(self) -> bool:
        return self.limit is not None and self.total >= self.limit


class Meter:
    """The cost of one attempt, added to the job's spending as it arises."""

    def __init__(self, spending: Spending | None = None) -> None:
        self._spending = spending or Spending()
        self.cost: float | None = 0.0
        """None once a model without a known price was asked."""

    def add(self, cost: float | None, whose: str) -> None:
        """Count a cost. One that is not known is refused where there is a limit to keep."""
        if cost is None:
            self.cost = None
            self._spending.unpriced = True
            if self._spending.limit is not None:
                raise ConfigError(
                    f"the spending limit cannot be enforced, since the price of {whose} is unknown: add it to a prices "
                    "file (FOCUSCTX_PRICES), or run without a limit"
                )
            return
        self._spending.total += cost
        if self.cost is not None:
            self.cost += cost


@dataclass(slots=True)
class Tally:
    """Items by part of the work: a benchmark, a file of recorded runs."""

    planned: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    """Done in earlier sittings."""
    done: dict[str, int] = field(default_factory=dict)
    """Done in this sitting."""
    failed: dict[str, int] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    began: float = field(default_factory=time.monotonic)
    stopped: str | None = None
    """Why the job stopped before all was done."""
    last_problem: str = ""

    @property
    def rate(self) -> float:
        """Items per second, in this sitting."""
        return sum(self.done.values()) / max(time.monotonic() - self.began, 1e-9)

    @property
    def left(self) -> int:
        """Items that still have no record."""
        return sum(self.planned.values()) - sum(self.before.values()) - sum(self.done.values())

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    def plan(self, part: str, *, is_done: bool) -> None:
        """Count one more item of a part."""
        for counts in (self.planned, self.before, self.done, self.failed):
            counts.setdefault(part, 0)
        self.planned[part] += 1
        self.before[part] += is_done
