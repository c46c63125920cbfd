"""Figures before they have a form, and matplotlib's part in drawing them; light and dark."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from focusctx.replay.lines import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "oDs^vPX*"
_WIDTH, _HEIGHT = 7.2, 4.2
_GROUPS = 20
"""Steps are drawn in at most this many groups."""
EVENTS_NOTE = (
    "Over the runs that got that far, in groups of steps; not drawn where fewer than a tenth of them did, or fewer "
    "than five (where there are no more than five: all)."
)
Runs: TypeAlias = Iterable[Iterable[tuple[int, bool]]]
"""For each run: its steps by number, and whether there was an event."""
Reached: TypeAlias = Mapping[int, tuple[int, int]]
"""For each step number: how many runs got there, and how many of them had an event there."""


@dataclass(frozen=True, slots=True)
class Theme:
    ink: str
    soft: str
    grid: str
    ground: str
    colours: tuple[str, ...]

    def look(self, number: int) -> dict[str, Any]:
        """Return the colour and the mark of the n-th thing in a picture, from 0."""
        return {"color": self.colours[number % len(self.colours)], "marker": MARKERS[number % len(MARKERS)]}


LIGHT = Theme(
    "#1b1f24", "#57606a", "#d5dae0", "#ffffff",
    ("#0b66a8", "#c8442c", "#00735a", "#8a3f8f", "#a86200", "#3d4450", "#0093a8", "#b0307a"),
)  # fmt: skip
DARK = Theme(
    "#e6e9ed", "#a3adb8", "#343b44", "#1d2126",
    ("#5ab0ee", "#ff8a70", "#3cc79f", "#d18ad6", "#eba83a", "#b9c2cd", "#4fd0e0", "#f287bd"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    key: str
    title: str
    note: str
    draw: Callable[[Axes, Theme], None]
    height: float = _HEIGHT


def drawn(figure: Figure, theme: Theme = LIGHT, form: str = "svg") -> bytes:
    """Draw the figure, and return it as a file of that form."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    look: dict[Any, Any] = {
        "font.size": 10,
        "font.family": "DejaVu Sans",
        "svg.hashsalt": "focusctx",
        "text.color": theme.ink,
        "axes.labelcolor": theme.soft,
        "axes.edgecolor": theme.grid,
        "axes.facecolor": theme.ground,
        "figure.facecolor": theme.ground,
        "xtick.color": theme.soft,
        "ytick.color": theme.soft,
        "grid.color": theme.grid,
        "legend.frameon": False,
    }
    with mpl.rc_context(look):
        canvas = Canvas(figsize=(_WIDTH, figure.height), layout="constrained")
        axes = canvas.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        axes.grid(linewidth=0.7)
        figure.draw(axes, theme)
        file = io.BytesIO()
        # No date: the same records make the same file.
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        canvas.savefig(file, format=form, dpi=200, metadata=metadata)
        return file.getvalue()


def bars(intervals: Sequence[Interval], scale: float = 1.0) -> list[list[float]]:
    """Return the lengths of error bars, below and above, as matplotlib wants them."""
    below = [scale * (one.mean - one.low) for one in intervals]
    return [below, [scale * (one.high - one.mean) for one in intervals]]


def count_events(runs: Runs) -> dict[int, tuple[int, int]]:
    """Count who got to each step, and who had an event there."""
    reached: dict[int, tuple[int, int]] = {}
    for steps in runs:
        for number, event in steps:
            seen, events = reached.get(number, (0, 0))
            reached[number] = seen + 1, events + event
    return reached


def events_per_step(reached: Reached, runs: int) -> tuple[list[float], list[float]]:
    """Return the middle of each group of steps, and the events per 100 steps in it."""
    steps = [step for step in sorted(reached) if reached[step][0] >= max(0.1 * runs, min(5, runs))]
    width = max(1, math.ceil(len(steps) / _GROUPS))
    middles, rates = [], []
    for first in range(0, len(steps), width):
        some = steps[first : first + width]
        middles.append(sum(some) / len(some))
        rates.append(100 * sum(reached[step][1] for step in some) / sum(reached[step][0] for step in some))
    return middles, rates


def events_figure(key: str, title: str, lines: Callable[[Theme], Iterable[tuple[Runs, Mapping[str, Any]]]]) -> Figure:
    """Return the picture of how often a run that got to a step was compressed there; each line has its own look."""

    def draw(axes: Axes, theme: Theme) -> None:
        for runs, look in lines(theme):
            every = [list(steps) for steps in runs]
            axes.plot(*events_per_step(count_events(every), len(every)), **{"markersize": 5, "linewidth": 1.5, **look})
        axes.set_xlabel("step")
        axes.set_ylabel("events per 100 steps")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=9)

    return Figure(key, title, EVENTS_NOTE, draw)
