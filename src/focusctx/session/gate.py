"""The money gate: does dropping pay? An event that does not pay may wait a little (see `due`).

A provider's cache holds the prompt up to the first token that changed. Dropping spans makes it read everything after
the first drop again, once, at the write price `w`; from then on every call is cheaper by the read price `r` of the
dropped tokens. With D dropped tokens, S kept tokens behind the first drop, C for the sketches (in input tokens of the
agent's model) and k calls to come, dropping pays when `k·r·D > (w − r)·S + C`. When the cache has gone cold everything
is read again anyway, and dropping always pays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..prices import Price

FREE = Price(input=0.0, output=0.0)
"""The price of an unpriced model: nothing is cached, nothing costs, and the gate stays open."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Gain and cost of an event, in input tokens of the agent's model."""

    pays: bool
    gain: float
    cost: float
    why: str

    @property
    def net(self) -> float:
        return self.gain - self.cost


def weigh(price: Price, *, dropped: int, suffix: int, calls: int, sketches: float, cold: bool) -> Verdict:
    """Judge whether an event pays, by the formula above."""
    gain = calls * price.cache_read * dropped
    cost = (price.cache_write - price.cache_read) * suffix + sketches
    if cold:
        return Verdict(True, price.cache_write * dropped + gain, sketches, "the provider's cache has gone cold")
    if gain > cost:
        return Verdict(True, gain, cost, f"pays within {calls} calls")
    return Verdict(
        False,
        gain,
        cost,
        f"does not pay: {calls} calls to come would save {gain:.0f} tokens' worth, and it costs {cost:.0f}",
    )


def calls_to_come(spans: int) -> int:
    """Estimate the calls the agent will still make: as many as it has made so far."""
    return max(spans, 1)
