"""The pictures of a replay: recall against tokens left, FOCUS minus its comparators, events by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from focusctx.replay.lines import Interval, Line, R
from focusctx.replay.record import RunRecord

from ...report.drawing import EVENTS_NOTE, Figure, Theme, bars, count_events, events_per_step, label_events
from .pairs import FEW, pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    marker: str
    size: float = 7.0
    hollow: bool = False


_KINDS = {"fifo": (4, "o"), "retrieval": (2, "s"), "masking": (3, "^")}
"""Colour and mark of the rules, whether they go by themselves (hollow) or get FOCUS's tokens (filled)."""
_MASKS = ("masking-10", "masking-5", "masking-3")
_MASKING = "Masking, M = 10, 5, 3"
_FOCUS = {"focus": (1, "*", 15.0), "focus-d": (0, "D", 8.0), "focus-o": (6, "d", 9.0)}


def trade_off(lines: Sequence[Line[R]]) -> Figure | None:
    """Every method where it stands: what it leaves, and what of the needed facts is in that."""
    places = [(line, line.mean("span_share"), line.mean("recall")) for line in lines]
    drawn = [(line, x, y) for line, x, y in places if x is not None and y is not None]
    if len(drawn) < 2:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        masks = [(x.mean, y.mean) for line, x, y in drawn if line.method in _MASKS]
        if len(masks) > 1:
            axes.plot(*_percents(sorted(masks)), color=theme.colours[3], linewidth=1, linestyle=":", zorder=1)
        for line, x, y in drawn:
            _mark(axes, theme, line, x, y)
        lowest = min(y.low for _, _, y in drawn)
        axes.set_xlim(max(0.0, 100 * min(x.low for _, x, _ in drawn) - 6), 104)
        axes.set_ylim(max(0.0, 100 * lowest - 4), 103)
        axes.set_xlabel("tokens of spans left (%)")
        axes.set_ylabel("evidence recall (%)")
        handles, labels = axes.get_legend_handles_labels()
        named = sorted(zip(_groups(drawn), handles, labels, strict=True), key=lambda entry: entry[0])
        axes.legend(
            [handle for _, handle, _ in named], [label for *_, label in named],
            fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.75,
        )  # fmt: skip

    note = (
        "Further left is cheaper, further up is better. Filled marks got FOCUS's share of tokens, pale ones that of "
        "FOCUS-D; hollow ones have their own settings. Bars: 95 % confidence, by bootstrap over runs."
    )
    return Figure("trade-off", "Evidence recall against tokens left", note, draw, height=4.6)


def _groups(drawn: Sequence[tuple[Line[R], Interval, Interval]]) -> list[int]:
    """Return the place of each line in the legend: the shipped FOCUS and its comparators first, rules last."""
    heads = ["focus", "focus-d", "focus-o"]
    leads = [line.matched or line.method for line, _, _ in drawn if line.method not in _MASKS[1:]]
    return [heads.index(lead) if lead in heads else len(heads) for lead in leads]


def _mark(axes: Axes, theme: Theme, line: Line[R], x: Interval, y: Interval) -> None:
    look = _look(line, theme)
    axes.errorbar(
        100 * x.mean,
        100 * y.mean,
        xerr=bars([x], 100),
        yerr=bars([y], 100),
        color=look.colour,
        marker=look.marker,
        markersize=look.size,
        markerfacecolor=theme.ground if look.hollow else look.colour,
        markeredgewidth=0.8 if line.is_focus else 1.3,
        markeredgecolor=theme.ground if line.is_focus else look.colour,
        linestyle="none",
        elinewidth=1.4 if line.is_focus else 0.8,
        zorder=4 if line.is_focus else 3 if line.matched else 2,
        label=None if line.method in _MASKS[1:] else _MASKING if line.method in _MASKS else line.name,
    )
    if line.method in _MASKS:
        number = line.method.partition("-")[2]
        place = (100 * x.mean, 100 * y.mean)
        axes.annotate(number, place, xytext=(5, -11), textcoords="offset points", fontsize=8, color=look.colour)


def _look(line: Line[R], theme: Theme) -> _Look:
    if line.method in _FOCUS:
        place, marker, size = _FOCUS[line.method]
        return _Look(theme.colours[place], marker, size)
    kind = line.method.partition("@")[0].partition("-")[0]
    if kind in _KINDS:
        place, marker = _KINDS[kind]
        colour = theme.colours[place]
        if line.matched not in ("", "focus"):
            colour = _paler(colour, theme.ground)
        return _Look(colour, marker, 6.5, hollow=not line.matched)
    return _Look(theme.soft, "X" if line.method == "oracle" else "P", 7.0)


def _paler(colour: str, ground: str) -> str:
    """Half way from a colour to the ground; both are written #rrggbb."""
    parts = [(int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(0.5 * one + 0.5 * other):02x}" for one, other in parts)


def differences(found: Mapping[str, Sequence[Line[R]]], over: str) -> Figure | None:
    """FOCUS minus each comparator with the same share of tokens, for every file."""
    shown = _shown(found)
    rows = [(file, pair) for file, lines in found.items() for pair in pairs(lines) if pair.focus.method == shown]
    if not rows:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        at, ticks, names = 0.0, [], []
        heads: dict[str, float] = {}
        for file, pair in rows:
            assert pair.recall is not None
            head = f"{file.removesuffix('.jsonl')}{f' ({pair.focus.detail})' if pair.focus.detail else ''}"
            if head not in heads:
                at += 1.2 if heads else 0.6
                heads[head] = at - 0.95
            mean, low, high = (100 * number for number in pair.recall)
            colour = {"above": theme.colours[2], "below": theme.colours[1]}.get(pair.verdict, theme.soft)
            axes.errorbar(
                mean, at, xerr=[[mean - low], [high - mean]],
                color=colour, marker=_look(pair.other, theme).marker, markersize=6.5, capsize=2.5, elinewidth=1.4,
                markerfacecolor=colour if pair.is_everywhere else theme.ground,
            )  # fmt: skip
            ticks.append(at)
            names.append(pair.name.lower())
            at += 1
        axes.axvline(0, color=theme.ink, linewidth=1)
        axes.set_yticks(ticks, names, fontsize=8.5)
        axes.set_ylim(at - 0.3, -0.8)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("difference in evidence recall (points)")
        for head, place in heads.items():
            axes.annotate(
                head, (0, place), xycoords=("axes fraction", "data"), xytext=(-8, 0), textcoords="offset points",
                ha="right", va="center", fontsize=9, fontweight="bold", color=theme.ink,
            )  # fmt: skip

    name = rows[0][1].focus.name.partition(" (")[0]
    note = (
        f"{name} minus the method that got the same share of tokens, paired over {over}: right of the line {name} is "
        "better. Within reach: where masking has at most a tenth more tokens. Grey: the 95 % interval, by bootstrap "
        f"over runs, holds zero, or there are fewer than {FEW} runs."
    )
    heads = len({file for file, _ in rows})
    return Figure(
        "differences", f"{name} against the same share of tokens", note, draw, height=1 + 0.24 * len(rows) + 0.3 * heads
    )


def _shown(found: Mapping[str, Sequence[Line[Any]]]) -> str:
    """The FOCUS that the picture is about: the shipped one, where it was replayed."""
    methods = {line.method for lines in found.values() for line in lines}
    return next(name for name in ("focus", "focus-d", "focus-o", "") if name in methods or not name)


def events_by_step(lines: Sequence[Line[RunRecord]]) -> Figure | None:
    """Draw how often a run that got to a step was compressed there."""
    shown = [line for line in lines if line.is_focus and any(record.events for record in line.records.values())]
    if not shown:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        for line in shown:
            look = _look(line, theme)
            reached = count_events([(step.step, step.event) for step in one.steps] for one in line.records.values())
            axes.plot(
                *events_per_step(reached, len(line.records)),
                color=look.colour, marker=look.marker, markersize=0.6 * look.size, linewidth=1.5, label=line.name,
            )  # fmt: skip
        label_events(axes)
        axes.legend(fontsize=9)

    return Figure("events", "Compression events by step", EVENTS_NOTE, draw, height=3.4)


def _percents(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [100 * x for x, _ in places], [100 * y for _, y in places]
