"""Variants of FOCUS: N, τ, FOCUS-O or FOCUS-D, and every switch beyond the paper, on top of it and off the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from focusctx.config import FocusConfig

from ..points import Point

ROLLOUTS = (1, 3, 5, 10)
THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
FILLS = (0.35, 0.45, 0.55, 0.7, 0.85)
PAPER = "FOCUS-D"
SHIPPED = "default"
GROUPS = {
    "N": "N = 3",
    "τ at N = 3": "τ = 0.3",
    "τ at N = 10": "τ = 0.3",
    "FOCUS-O against FOCUS-D": PAPER,
    "Switches on top of the paper": PAPER,
    "Switches off the default": SHIPPED,
}
"""Groups of variants, and the row that the others of a group are compared with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to set things."""

    group: str
    name: str
    config: FocusConfig
    of_point: Callable[[Point], Mapping[str, Any]] = field(default=lambda _: {})
    """Settings that depend on where they are used."""

    def at(self, point: Point) -> FocusConfig:
        # Points are over budget by their own measure, and no failure may silence the draft for the next one.
        return self.config.with_changes(budget=point.budget, breaker_pause=0.0, **self.of_point(point))


def variants() -> list[Variant]:
    """All of them, group by group."""
    paper, shipped = FocusConfig.paper(), FocusConfig()
    return [
        *_rollouts(paper),
        *(Variant("τ at N = 3", _tau(tau), paper.with_changes(threshold=tau)) for tau in THRESHOLDS),
        *(Variant("τ at N = 10", _tau(tau), paper.with_changes(threshold=tau, rollouts=10)) for tau in THRESHOLDS),
        Variant("FOCUS-O against FOCUS-D", PAPER, paper),
        Variant("FOCUS-O against FOCUS-D", "FOCUS-O", paper.with_changes(defensive=False)),
        *_switches(paper),
        *_without(shipped),
    ]


def _rollouts(paper: FocusConfig) -> list[Variant]:
    return [Variant("N", f"N = {count}", paper.with_changes(rollouts=count)) for count in ROLLOUTS]


def _switches(paper: FocusConfig) -> list[Variant]:
    """Each switch alone, on top of the paper's algorithm."""
    group = "Switches on top of the paper"
    return [
        Variant(group, PAPER, paper),
        *(Variant(group, f"fill {target:g}", paper.with_changes(fill=target)) for target in FILLS),
        Variant(group, "skeletons for all dropped", paper.with_changes(dropped="skeleton")),
        Variant(group, "N = 10", paper.with_changes(rollouts=10)),
        Variant(group, "limit: half of the history", paper, lambda point: {"limit": point.history.tokens // 2}),
        Variant(group, "limit: a third of it", paper, lambda point: {"limit": point.history.tokens // 3}),
    ]


def _without(shipped: FocusConfig) -> list[Variant]:
    """The shipped default, and it without each switch that it has on."""
    paper = FocusConfig.paper()
    group = "Switches off the default"
    names = ("fill", "limit", "dropped", "defensive")
    on = [name for name in names if getattr(shipped, name) != getattr(paper, name)]
    return [
        Variant(group, SHIPPED, shipped),
        *(Variant(group, f"without {name}", shipped.with_changes(**{name: getattr(paper, name)})) for name in on),
    ]


def _tau(tau: float) -> str:
    return f"τ = {tau:g}"
