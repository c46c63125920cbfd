"""The study as a report: tables and figures, with the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from focusctx import __version__
from focusctx.replay.lines import Interval

from ...report.document import Cell, Column, Document, Number, Row, Section, Table, cell_of, listed
from ...report.drawing import MARKERS, Figure, Theme, bars
from .events import BINS
from .findings import ENOUGH, SETTLED, Curve, Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BRACKETS = "In brackets: 95 % confidence, by bootstrap over events."
_PAPER = "Paper: its appendix, 30 OfficeBench events with gpt-4.1."
_DIVERGENCES = {"action divergence", "plan divergence", "hindsight"}
_SHOWN = (1, 3, 10, 30, 100, 300, 1000)
_PAPER_JACCARD = {1: 0.92}
_PAPER_ERROR = {1: 0.25, 10: 0.089, 300: 0.025}
"""The paper's figures for plans, by N."""
_PAPER_SLOPE = {"plans": -0.40, "sampled divergence": -0.17}
_PAPER_SETTLES = {"plans": 10, "sampled divergence": 1000}


def document(findings: Findings, command: str) -> Document:
    return Document(
        "The estimator study",
        [f"Made by focusctx {__version__}:", f"    {command}"],
        [Section("study", f"Draft {findings.draft}", facts(findings), tables(findings), figures(findings))],
    )


def facts(findings: Findings) -> str:
    files = listed([f"{count} of {file}" for file, count in findings.files.items()])
    text = (
        f"{findings.events} events ({files}), {findings.sketches:,} sketches or more at each that are plans; "
        f"{100 * findings.no_plans:.1f} % of the replies are none and do not vote. τ = {findings.threshold:g}."
    )
    if findings.model is not None:
        sampled = findings.model.endswith(" samples")
        text += f" Divergences by {'choices' if sampled else 'the probabilities'} of {findings.model}."
    return text


def tables(findings: Findings) -> list[Table]:
    note = "Jaccard; 1 is the same set. Spans that no method may drop are left out."
    title, paper = "Overlap of the keep-set with the converged one", _PAPER_JACCARD
    overlaps = _by_size(findings.curves, Curve.jaccards, paper, key="jaccard", title=title, note=note)
    note = "The largest |û(N) − u*| over an event's spans; of the divergence, as a share of the mean largest u*."
    title, paper = "Worst-span error", _PAPER_ERROR
    errors = _by_size(findings.curves, Curve.errors, paper, key="error", title=title, note=note)
    others = [_spread_table(findings), _uses(findings), _agreements(findings), _coverage_table(findings)]
    return [_summary(findings), overlaps, errors, *others]


def _summary(findings: Findings) -> Table:
    rows = [
        Row(curve.name, [_settles(curve), cell_of(curve.slope(), paper=_PAPER_SLOPE.get(curve.name))])
        for curve in findings.curves
    ]
    columns = [Column("keep-set settles at N"), Column("slope of the worst-span error")]
    note = (
        f"Settled: the mean Jaccard overlap with the converged keep-set is {SETTLED:g} or more from this N on. Slope: "
        f"least squares on log-log axes, over N = {findings.curves[0].sizes[0]} to {findings.curves[0].sizes[-1]}; "
        f"independent samples give −0.5 for one span. {_BRACKETS} {_PAPER}"
    )
    counted = len(findings.curves[0].error)
    if not findings.curves[0].enough:
        note += f" With fewer than {ENOUGH} plans at each event neither can be told."
    elif counted < findings.events:
        note += f" Plans: over the {counted} events that have {ENOUGH} or more."
    return Table("summary", "How many sketches are enough", note, columns, rows, stub="Estimator")


def _settles(curve: Curve) -> Cell:
    if not curve.enough:
        return None
    paper = _PAPER_SETTLES.get(curve.name)
    if (size := curve.settles()) is not None:
        return Number(size, 0, paper=paper)
    return f"over {curve.sizes[-1]:,}" + (f" (paper {paper:,})" if paper else "")


def _by_size(
    curves: Sequence[Curve],
    of: Callable[[Curve], list[Interval]],
    paper: dict[int, float],
    *,
    key: str,
    title: str,
    note: str,
) -> Table:
    sizes = [size for size in _SHOWN if any(size in curve.sizes for curve in curves)]
    rows = []
    for curve in curves:
        at = dict(zip(curve.sizes, of(curve), strict=True))
        known = paper if curve.name == "plans" else {}
        rows.append(Row(curve.name, [cell_of(at.get(size), 3, paper=known.get(size)) for size in sizes]))
    columns = [Column(f"N = {size:,}") for size in sizes]
    return Table(key, title, f"{note} {_BRACKETS} {_PAPER}", columns, rows, stub="Estimator")


def _spread_table(findings: Findings) -> Table:
    rows = []
    for spread in findings.spreads:
        none, *_, every = spread.shares()
        either = Number(100 * (none + every), 0, paper=92 if spread.name == "N = 3" else None)
        near = Number(100 * spread.near(findings.threshold), 0)
        rows.append(Row(spread.name, [Number(100 * none, 0), Number(100 * every, 0), either, near]))
    columns = [Column("no sketch %"), Column("every sketch %"), Column("either %"), Column("within 1/6 of τ %")]
    note = "Of the spans that may be dropped, the share with such a utility. Paper: AppWorld, gpt-4.1, N = 3."
    return Table("spread", "How utilities are spread", note, columns, rows, stub="Utilities from")


def _uses(findings: Findings) -> Table:
    rows = []
    for use in findings.uses:
        cells = [cell_of(use.auc), cell_of(use.recall), f"{use.events}"]
        rows.append(Row(use.estimator, cells, baseline=use.estimator == "hindsight"))
    columns = [Column("AUC", "more"), Column("recall", "more"), Column("events")]
    note = (
        "Against the spans that gave a fact which later actions of the recorded run use. AUC: how likely such a span "
        "ranks above another, .5 is chance. Recall: the share of them among the spans kept, where each estimator "
        "keeps as many spans as the sketches do. Hindsight scores the action that the agent took next: no method "
        f"knows it. {_BRACKETS}"
    )
    return Table("use", "Estimators against what the future used", note, columns, rows, stub="Estimator")


def _agreements(findings: Findings) -> Table:
    rows = []
    for one in findings.agreements:
        # Citations against all others, and the divergences among themselves.
        if one.left != "citations" and not {one.left, one.right} <= _DIVERGENCES:
            continue
        theirs = {one.left, one.right} == {"citations", "action divergence"}
        cells = [
            cell_of(one.overlap, paper=0.85 if theirs else None),
            Number(one.chance),
            cell_of(one.decisions, paper=0.39 if theirs else None),
            cell_of(one.utilities),
            f"{one.events}",
        ]
        rows.append(Row(f"{one.left}, {one.right}", cells))
    columns = [
        Column("overlap"), Column("by chance"), Column("Spearman, decisions"), Column("Spearman, utilities"),
        Column("events"),
    ]  # fmt: skip
    note = (
        "Overlap coefficient of the kept sets, each of as many spans as the sketches keep; by chance: what random sets "
        f"of that size share. Events at which all or no spans are kept are left out. {_BRACKETS} Paper: OfficeBench "
        "(AppWorld: .90 and .48)."
    )
    return Table("agreement", "Agreement of the estimators", note, columns, rows, stub="Estimators")


def _coverage_table(findings: Findings) -> Table:
    rows = []
    for found in findings.coverages:
        sets = sum(one.sets for one in found.bins)
        rows.append(Row(found.name, [Number(found.kappa), Number(found.epsilon), f"{sets:,}"]))
    columns = [Column("κ"), Column("ε"), Column("sets")]
    drops = findings.drops
    judged = "as fresh sketches see it" if drops.fresh else "by the same sketches that chose it"
    note = (
        "The smallest line u^π = κ·u^q + ε above the mean of every bin of sets with about the same u^q; u^π is how "
        "often a later action uses something that only the set gave, and ε how often where no sketch cites it. "
        f"The sets that FOCUS-D drops with three sketches have a mean û_S of {drops.cited:.2f}, {judged}, and a later "
        f"action misses something of them at {100 * drops.needed:.0f} % of the events."
    )
    return Table("coverage", "Draft–agent coverage", note, columns, rows, stub="Sets")


def figures(findings: Findings) -> list[Figure]:
    return [_settling(findings), _error_figure(findings), _spread_figure(findings), _coverage_figure(findings)]


def _plain_numbers(axis: Any) -> None:
    """1, 10, 100 and not powers of ten; 0.3 where there is no room for more."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _settling(findings: Findings) -> Figure:
    def draw(axes: Axes, theme: Theme) -> None:
        _curves(axes, theme, findings.curves, Curve.jaccards)
        axes.scatter(*zip(*_PAPER_JACCARD.items(), strict=True), color=theme.ink, marker="x", zorder=3, label="paper")
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis)
        axes.set_xlabel("sketches or draws, N")
        axes.set_ylabel("overlap with the converged keep-set (Jaccard)")
        axes.set_ylim(top=1.01)
        axes.legend(fontsize=9, loc="lower right")

    note = "Mean over events, bands: 95 % confidence."
    return Figure("settling", "How fast the decision settles", note, draw)


def _error_figure(findings: Findings) -> Figure:
    def draw(axes: Axes, theme: Theme) -> None:
        _curves(axes, theme, findings.curves, Curve.errors, slopes=True)
        axes.plot(
            *zip(*_PAPER_ERROR.items(), strict=True),
            color=theme.ink, marker="x", linestyle=":", linewidth=1.2, label="paper, plans (slope −0.40)",
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain_numbers(axes.xaxis)
        _plain_numbers(axes.yaxis)
        axes.set_xlabel("sketches or draws, N")
        axes.set_ylabel("worst-span error")
        axes.legend(fontsize=9)

    note = "Mean over events, bands: 95 % confidence. Of the divergence: relative to the mean largest utility."
    return Figure("error", "How fast the worst span's error falls", note, draw)


def _curves(
    axes: Axes, theme: Theme, curves: Sequence[Curve], of: Callable[[Curve], list[Interval]], *, slopes: bool = False
) -> None:
    for place, curve in enumerate(curves):
        found = of(curve)
        slope = curve.slope() if slopes else None
        name = curve.name + (f" (slope {slope.mean:.2f})".replace("-", "−") if slope else "")
        colour = theme.colours[place]
        axes.plot(curve.sizes, [one.mean for one in found], color=colour, marker=MARKERS[place], label=name)
        low, high = [max(one.low, 1e-4) for one in found], [one.high for one in found]
        axes.fill_between(curve.sizes, low, high, color=colour, alpha=0.15, linewidth=0)


def _spread_figure(findings: Findings) -> Figure:
    def draw(axes: Axes, theme: Theme) -> None:
        width = 0.8 / len(findings.spreads)
        for number, spread in enumerate(findings.spreads):
            places = [place + (number - (len(findings.spreads) - 1) / 2) * width for place in range(len(BINS))]
            heights = [100 * share for share in spread.shares()]
            axes.bar(places, heights, width, color=theme.colours[number], label=spread.name)
        at = 0.5 + 10 * findings.threshold
        axes.axvline(at, color=theme.ink, linestyle=":", linewidth=1.2)
        axes.annotate(
            f"τ = {findings.threshold:g}", (at, 0.92), xycoords=("data", "axes fraction"), xytext=(5, 0),
            textcoords="offset points", color=theme.ink, fontsize=9,
        )  # fmt: skip
        axes.set_xticks(range(len(BINS)), BINS, rotation=45, ha="right", fontsize=8.5)
        axes.set_xlabel("utility: the share of sketches that cite a span")
        axes.set_ylabel("spans (%)")
        axes.grid(visible=False, axis="x")
        axes.legend(fontsize=9, loc="upper right")

    note = "Spans that may be dropped, all events. First and last bar: cited by no sketch, by every sketch."
    return Figure("spread", "How utilities are spread", note, draw)


def _coverage_figure(findings: Findings) -> Figure:
    def draw(axes: Axes, theme: Theme) -> None:
        for number, found in enumerate(findings.coverages):
            colour = theme.colours[number]
            x = [one.cited for one in found.bins]
            means = [one.needed for one in found.bins]
            axes.errorbar(
                x, [one.mean for one in means],
                yerr=bars(means),
                color=colour, marker=MARKERS[number], linestyle="none", capsize=2.5,
                label=f"{found.name}: κ = {found.kappa:.2f}, ε = {found.epsilon:.2f}",
            )  # fmt: skip
            axes.plot([0, 1], [found.epsilon, found.epsilon + found.kappa], color=colour, linewidth=1.2)
        axes.set_xlabel("share of sketches that cite the set, $u^q_S$")
        axes.set_ylabel("share of sets that the agent needed, $u^\\pi_S$")
        axes.set_ylim(-0.02, 1.05)
        axes.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    note = "Sets fixed without looking at the sketches, in bins by citation share. Bars: 95 % confidence."
    return Figure("coverage", "Does the agent need what the draft does not cite?", note, draw)
