"""The paper's figures for one study, drawn by matplotlib: trade-off over δ, draft models, events by step, cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..report.drawing import EVENTS_NOTE, MARKERS, Figure, Theme, bars, count_events, events_per_step, label_events
from .collect import Line, Study, main_lines, plain_name, varied_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLOURED = ("focus-d", "focus-o", "acon-utco", "acon-ut", "prompting", "none", "llmlingua", "retrieval")


def figures(study: Study) -> list[Figure]:
    lines = main_lines(study)
    made = [_trade_off(study, lines), _by_draft(study, lines), _events(study, lines), _cost(lines)]
    return [figure for figure in made if figure is not None]


def _trade_off(study: Study, lines: Sequence[Line]) -> Figure | None:
    """One point per method, and a path over δ for those that were run at several."""
    swept = {
        method: list(some) for method, some in groupby(varied_lines(study, "budget"), key=lambda line: line.method)
    }
    paths = [swept.get(line.method, [line]) for line in lines]
    labelled = next((path for path in reversed(paths) if len(path) > 1), [])
    if len(paths) + len(labelled) < 2:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        for path in paths:
            colour, marker = _look(path[0], theme)
            x = [line.summary.peak.mean / 1000 for line in path]
            y = [100 * line.summary.accuracy.mean for line in path]
            axes.errorbar(
                x, y, yerr=bars([line.summary.accuracy for line in path], 100), label=path[0].name,
                color=colour, marker=marker, markersize=7, linewidth=1.6, elinewidth=0.9, capsize=2.5,
            )  # fmt: skip
        for line in labelled:
            axes.annotate(
                f"δ = {line.settings['budget']:,}",
                (line.summary.peak.mean / 1000, 100 * line.summary.accuracy.mean),
                xytext=(7, -12), textcoords="offset points", fontsize=8.5, color=theme.ink,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": theme.ground, "edgecolor": "none", "alpha": 0.8},
            )  # fmt: skip
        axes.set_xlabel("peak tokens of a task, mean (thousands)")
        axes.set_ylabel("accuracy (%)")
        axes.set_xlim(0, 1.08 * axes.get_xlim()[1])
        low = min(line.summary.accuracy.low for path in paths for line in path)
        axes.set_ylim(max(-6.0, 100 * low - 8), 105)
        axes.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.9)

    note = "Further left is cheaper, further up is better. Bars: 95 % confidence."
    if labelled:
        note += f" Paths run over δ; those of {labelled[0].name} are named."
    return Figure("trade-off", "Accuracy against peak tokens", note, draw)


def _events(study: Study, lines: Sequence[Line]) -> Figure | None:
    """Draw how often a run that got to a step was compressed there; over δ where it was varied."""
    swept = [line for line in varied_lines(study, "budget") if line.method == "focus-d"]
    shown = swept or [line for line in lines if "budget" in line.settings]
    shown = [line for line in shown if any(event for steps in line.event_steps for _, event in steps)]
    if not shown:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        for place, line in enumerate(shown):
            steps, shares = events_per_step(count_events(line.event_steps), len(line.event_steps))
            colour, marker = _look(line, theme)
            if swept:
                colour, marker = theme.colours[place % len(theme.colours)], MARKERS[place % len(MARKERS)]
            name = f"δ = {line.settings['budget']:,}" if swept else line.name
            axes.plot(steps, shares, color=colour, marker=marker, markersize=5, linewidth=1.5, label=name)
        label_events(axes)
        axes.legend(fontsize=9)

    return Figure("events", "Compression events by step" + (", FOCUS-D" if swept else ""), EVENTS_NOTE, draw)


def _cost(lines: Sequence[Line]) -> Figure | None:
    """Agent and draft, per task: in dollars for the rows that have a price, in tokens where none has."""
    if len(lines) < 2:
        return None
    dollars = [_dollars(line) for line in lines]
    priced = any(map(sum, filter(None, dollars)))
    heights = dollars if priced else [_tokens(line) for line in lines]

    def draw(axes: Axes, theme: Theme) -> None:
        shown = [height or (0.0, 0.0) for height in heights]
        places = list(range(len(lines)))
        agent, draft = ([height[part] for height in shown] for part in (0, 1))
        axes.barh(places, agent, color=theme.colours[0], label="agent", height=0.66)
        if any(draft):
            axes.barh(places, draft, left=agent, color=theme.colours[4], label="draft", height=0.66)
            axes.legend(fontsize=9, loc="lower right")
        most = max(map(sum, shown)) or 1.0
        for place, height in enumerate(heights):
            axes.text(
                sum(height or ()) + 0.01 * most, place, cost_label(height, priced=priced),
                va="center", fontsize=8.5, color=theme.soft,
            )  # fmt: skip
        axes.set_yticks(places, [line.name for line in lines])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1.12 * most)
        axes.set_xlabel("USD per task, at list prices" if priced else "thousand tokens read and written per task")

    title = "Cost per task" if priced else "Tokens per task"
    note = "" if priced else "Nothing here has a price: tokens in place of dollars."
    if priced and None in dollars:
        note = "Rows without a bar ask a model whose price is not known."
    return Figure("cost", title, note, draw, height=1.2 + 0.34 * len(lines))


def cost_label(height: tuple[float, float] | None, *, priced: bool) -> str:
    """Return the words beside a bar: dollars, tokens, or that there is no price."""
    if height is None:
        return "no price"
    return f"${sum(height):,.3f}" if priced else f"{sum(height):,.0f}"


def _dollars(line: Line) -> tuple[float, float] | None:
    """Return USD per task of agent and draft; None if either has no price."""
    agent, draft, tasks = line.summary.agent.cost, line.summary.draft.cost, line.summary.tasks
    return None if agent is None or draft is None else (agent / tasks, draft / tasks)


def _tokens(line: Line) -> tuple[float, float]:
    """Return thousands of tokens per task of agent and draft."""
    agent, draft, scale = line.summary.agent, line.summary.draft, 1000 * line.summary.tasks
    return (
        (agent.input_tokens + agent.output_tokens) / scale,
        (draft.input_tokens + draft.output_tokens) / scale,
    )


def _by_draft(study: Study, lines: Sequence[Line]) -> Figure | None:
    """Accuracy and cost by draft model, beside the uncompressed agent, as in the paper's figure on draft models."""
    swept = [line for line in varied_lines(study, "draft") if line.method == "focus-d"]
    if not swept:
        return None
    shown = [*(line for line in lines if line.method == "none"), *swept]
    names = [line.name if line.method == "none" else _drawable(plain_name(str(line.writer))) for line in shown]
    dollars = [_dollars(line) for line in shown]
    priced = any(map(sum, filter(None, dollars)))
    heights = dollars if priced else [_tokens(line) for line in shown]

    def draw(axes: Axes, theme: Theme) -> None:
        for line, name, height, place in zip(shown, names, heights, range(len(shown)), strict=True):
            if height is None:
                continue
            axes.errorbar(
                [sum(height)], [100 * line.summary.accuracy.mean], yerr=bars([line.summary.accuracy], 100),
                color=theme.colours[place % len(theme.colours)], marker=MARKERS[place % len(MARKERS)], markersize=8,
                capsize=2.5, linestyle="none", label=f"{name}: {cost_label(height, priced=priced)}",
            )  # fmt: skip
        axes.set_xlabel("USD per task, agent and draft" if priced else "thousand tokens per task, agent and draft")
        axes.set_ylabel("accuracy (%)")
        axes.set_xlim(0, 1.15 * axes.get_xlim()[1])
        axes.legend(fontsize=8.5)

    missing = [name for name, height in zip(names, heights, strict=True) if height is None]
    note = "FOCUS-D with each draft, and the uncompressed agent. Bars: 95 % confidence."
    if missing:
        note += f" Without a known price, and so not drawn: {', '.join(missing)}."
    return Figure("drafts", "Accuracy and cost by draft model", note, draw)


def _drawable(name: str) -> str:
    """Return a name in characters that every font has."""
    return name.encode("ascii", "replace").decode()


def _look(line: Line, theme: Theme) -> tuple[str, str]:
    """A method's colour and mark; methods that only cut by rule share the soft colour and differ in marks."""
    if line.method in _COLOURED:
        place = _COLOURED.index(line.method)
        return theme.colours[place], MARKERS[place]
    rules = ("fifo", "masking-10", "masking-5", "masking-3")
    place = rules.index(line.method) if line.method in rules else 0
    return theme.soft, "<>dh"[place]
