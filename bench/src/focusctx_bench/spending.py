"""What a run costs while it goes on, and when it has to stop for that."""

from __future__ import annotations

from focusctx.errors import ConfigError
from focusctx.replay.tally import Spending

from .record import Step


class Meter:
    """One attempt's part of it."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self.cost = 0.0
        self.unpriced = False

    def step(self, step: Step) -> None:
        """With the provider's cache prices where they are known."""
        self.add(step.usage.cost if step.billed is None else step.billed, "the agent's model")
        if step.event is not None:
            self.add(step.event.usage.cost, "the model that the method asks")

    def add(self, cost: float | None, whose: str) -> None:
        if cost is None:
            self.unpriced = self._spending.unpriced = True
            if self._spending.limit is not None:
                raise ConfigError(
                    f"the spending limit cannot be kept: no price is known for {whose}; give prices in a file "
                    "that FOCUSCTX_PRICES names, or set no limit"
                )
            return
        self.cost += cost
        self._spending.total += cost
