"""Variants of FOCUS: N, τ, FOCUS-O or FOCUS-D, and levels and targets, on top of the paper and off the default."""

from __future__ import annotations

from dataclasses import dataclass

from focusctx.config import FocusConfig

from ..points import Point

ROLLOUTS = (1, 3, 5, 10)
THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
TARGETS = (0.3, 0.5, 0.7)
PAPER = "FOCUS-D"
SHIPPED = "default: levels, target 0.5"
GROUPS = {
    "N": "N = 3",
    "τ at N = 3": "τ = 0.3",
    "τ at N = 10": "τ = 0.3",
    "FOCUS-O against FOCUS-D": PAPER,
    "Levels and targets on top of the paper": PAPER,
    "Levels and targets off the default": SHIPPED,
}
"""Groups of variants, and the row that the others of a group are compared with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to set things."""

    group: str
    name: str
    config: FocusConfig
    share: float | None = None
    """The target, as a share of the spans' tokens: task and user's words differ in size and stay anyway."""

    def at(self, point: Point) -> FocusConfig:
        """Return the settings at a point: its history has just passed the budget."""
        # No failure may silence the draft for the next point.
        config = self.config.with_changes(budget=point.history.tokens - 1, breaker_pause=0.0, target=None)
        return config if self.share is None else config.with_changes(target=point.target(self.share))


def variants() -> list[Variant]:
    """All of them, group by group."""
    paper = FocusConfig.paper()
    return [
        *_rollouts(paper),
        *(Variant("τ at N = 3", _tau(tau), paper.with_changes(threshold=tau)) for tau in THRESHOLDS),
        *(Variant("τ at N = 10", _tau(tau), paper.with_changes(threshold=tau, rollouts=10)) for tau in THRESHOLDS),
        Variant("FOCUS-O against FOCUS-D", PAPER, paper),
        Variant("FOCUS-O against FOCUS-D", "FOCUS-O", paper.with_changes(defensive=False)),
        *_on_top(paper),
        *_off(FocusConfig()),
    ]


def _rollouts(paper: FocusConfig) -> list[Variant]:
    return [Variant("N", f"N = {count}", paper.with_changes(rollouts=count)) for count in ROLLOUTS]


def _on_top(paper: FocusConfig) -> list[Variant]:
    """Levels, targets and more sketches, each alone on top of the paper's algorithm."""
    group = "Levels and targets on top of the paper"
    return [
        Variant(group, PAPER, paper),
        Variant(group, "levels, no target", paper.with_changes(levels=True)),
        *(Variant(group, f"whole steps, target {share:g}", paper, share) for share in TARGETS),
        Variant(group, "N = 10", paper.with_changes(rollouts=10)),
    ]


def _off(shipped: FocusConfig) -> list[Variant]:
    """The shipped default, it without levels or target, and with other targets."""
    group = "Levels and targets off the default"
    return [
        Variant(group, SHIPPED, shipped, 0.5),
        Variant(group, "levels off", shipped.with_changes(levels=False), 0.5),
        Variant(group, "target None", shipped),
        *(Variant(group, f"target {share:g}", shipped, share) for share in TARGETS if share != 0.5),
    ]


def _tau(tau: float) -> str:
    return f"τ = {tau:g}"
