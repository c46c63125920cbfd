"""The report of bench runs: a section for every study, with the paper's figures drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusctx import __version__
from focusctx.errors import BenchError

from ..job import runs_below
from ..report.document import Document, Section, slug
from ..report.drawing import Figure, Runs, Theme, bars, events_figure
from .collect import Study, StudyLine, collect, main_lines, paper_source, plain_name, varied_lines
from .tables import tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
_COLOURED = ("focus-d", "focus-o", "acon-utco", "acon-ut", "prompting", "none", "llmlingua", "retrieval")


def document(folder: Path) -> Document:
    studies = collect(folder)
    if not studies:
        raise BenchError(f"{folder} contains no finished task yet: continue with `focusctx bench run --out {folder}`")
    notices = []
    if left := sum(run.unfinished() for run in runs_below(folder)):
        notices.append(f"Not finished: {left:,} tasks have no record yet. Means are over those that have.")
    sections: list[Section] = []
    for study in studies:
        sections.append(_section(study, {section.key for section in sections}))
    return Document("focusctx bench", [*notices, f"Made by focusctx {__version__}."], sections)


def _section(study: Study, taken: set[str]) -> Section:
    facts = f"Agent: {study.model}. Seed {study.settings['seed']}. {study.planned:,} tasks."
    if study.model.startswith("scripted:"):
        facts += " A scripted agent: a testbed for methods, which says nothing about language models."
    labels, tasks = paper_source(study)
    if labels:
        over = f" over {tasks} tasks" if tasks else ""
        facts += f" “Paper”: the FOCUS paper's figures for the same setting{over} ({', '.join(labels)})."
        facts += " Its agent had another prompt."
    else:
        facts += " The paper has no figures for this setting."
    title, lines = f"{study.title}, agent {study.model}", main_lines(study)
    plain = slug(title)
    key = next(key for number in count(1) if (key := plain if number == 1 else f"{plain}-{number}") not in taken)
    figures = [_trade_off(study, lines), _by_draft(study, lines), _events(study, lines), _cost(lines)]
    return Section(key, title, facts, tables(study), [*filter(None, figures)])


def _trade_off(study: Study, lines: Sequence[StudyLine]) -> Figure | None:
    """Draw a point per method, and a path over δ for those that were run at several."""
    swept = {
        method: list(some) for method, some in groupby(varied_lines(study, "budget"), key=lambda line: line.method)
    }
    paths = [swept.get(line.method, [line]) for line in lines]
    labelled = next((path for path in reversed(paths) if len(path) > 1), [])
    if len(paths) + len(labelled) < 2:
        return None

    def draw(axes: Axes, theme: Theme) -> None:
        for path in paths:
            x = [line.summary.peak.mean / 1000 for line in path]
            y = [100 * line.summary.accuracy.mean for line in path]
            axes.errorbar(
                x, y, yerr=bars([line.summary.accuracy for line in path], 100), label=path[0].name,
                **_look(path[0], theme), markersize=7, linewidth=1.6, elinewidth=0.9, capsize=2.5,
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


def _events(study: Study, lines: Sequence[StudyLine]) -> Figure | None:
    """Draw how often a run that got to a step was compressed there; over δ where it was varied."""
    swept = [line for line in varied_lines(study, "budget") if line.method == "focus-d"]
    shown = swept or [line for line in lines if "budget" in line.settings]
    shown = [line for line in shown if any(event for steps in line.event_steps for _, event in steps)]

    def drawn(theme: Theme) -> Iterator[tuple[Runs, Mapping[str, Any]]]:
        for place, line in enumerate(shown):
            look = theme.look(place) if swept else _look(line, theme)
            name = f"δ = {line.settings['budget']:,}" if swept else line.name
            yield line.event_steps, {**look, "label": name}

    title = "Compression events by step" + (", FOCUS-D" if swept else "")
    return events_figure("events", title, drawn) if shown else None


def _cost(lines: Sequence[StudyLine]) -> Figure | None:
    """Draw the cost of agent and draft per task: in dollars for rows with a price, in tokens where none has one."""
    if len(lines) < 2:
        return None
    heights, priced = _costs(lines)

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
    if priced and None in heights:
        note = "Rows without a bar ask a model whose price is not known."
    return Figure("cost", title, note, draw, height=1.2 + 0.34 * len(lines))


def cost_label(height: tuple[float, float] | None, *, priced: bool) -> str:
    """Return the words beside a bar: dollars, tokens, or that there is no price."""
    if height is None:
        return "no price"
    return f"${sum(height):,.3f}" if priced else f"{sum(height):,.0f}"


def _costs(lines: Sequence[StudyLine]) -> tuple[list[tuple[float, float] | None], bool]:
    """Return the cost per task of agent and draft, and whether it is in USD, or in thousands of tokens."""
    dollars: list[tuple[float, float] | None] = []
    tokens: list[tuple[float, float] | None] = []
    for line in lines:
        usages, tasks = (line.summary.agent, line.summary.draft), line.summary.tasks
        agent, draft = (usage.cost for usage in usages)
        dollars.append(None if agent is None or draft is None else (agent / tasks, draft / tasks))
        by_agent, by_draft = ((usage.input_tokens + usage.output_tokens) / (1000 * tasks) for usage in usages)
        tokens.append((by_agent, by_draft))
    priced = any(map(sum, filter(None, dollars)))
    return (dollars, True) if priced else (tokens, False)


def _by_draft(study: Study, lines: Sequence[StudyLine]) -> Figure | None:
    """Draw accuracy and cost by draft model, beside the uncompressed agent, as in the paper's figure."""
    swept = [line for line in varied_lines(study, "draft") if line.method == "focus-d"]
    if not swept:
        return None
    shown = [*(line for line in lines if line.method == "none"), *swept]
    # In characters that every font has.
    written = [plain_name(str(line.writer)).encode("ascii", "replace").decode() for line in shown]
    names = [line.name if line.method == "none" else name for line, name in zip(shown, written, strict=True)]
    heights, priced = _costs(shown)

    def draw(axes: Axes, theme: Theme) -> None:
        for line, name, height, place in zip(shown, names, heights, range(len(shown)), strict=True):
            if height is None:
                continue
            axes.errorbar(
                [sum(height)], [100 * line.summary.accuracy.mean], yerr=bars([line.summary.accuracy], 100),
                **theme.look(place), markersize=8,
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


def _look(line: StudyLine, theme: Theme) -> dict[str, Any]:
    """Return a method's colour and mark; methods that only cut by rule share the soft colour and differ in marks."""
    if line.method in _COLOURED:
        return theme.look(_COLOURED.index(line.method))
    rules = ("fifo", "masking-10", "masking-5", "masking-3")
    place = rules.index(line.method) if line.method in rules else 0
    return {"color": theme.soft, "marker": "<>dh"[place]}
