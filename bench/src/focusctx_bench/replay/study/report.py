"""The study as a report: its tables, with the paper's figures beside ours, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from focusctx import __version__
from focusctx.replay.lines import Interval

from ...report.document import Document, Section
from ...report.table import Cell, Column, Number, Row, Table, cell_of
from .convergence import ENOUGH, SETTLED, Curve
from .estimators import Agreement
from .figures import figures
from .findings import Findings

_BRACKETS = "In brackets: 95 % confidence, by bootstrap over events."
_PAPER = "Paper: its appendix, 30 OfficeBench events with gpt-4.1."
_SHOWN = (1, 3, 10, 30, 100, 300, 1000)
_PAPER_JACCARD = {("plans", 1): 0.92}
_PAPER_ERROR = {("plans", 1): 0.25, ("plans", 10): 0.089, ("plans", 300): 0.025}
_PAPER_SLOPE = {"plans": -0.40, "sampled divergence": -0.17}
_PAPER_SETTLES = {"plans": 10, "sampled divergence": 1000}


def tables(findings: Findings) -> list[Table]:
    made = [_summary(findings), _jaccard(findings.curves), _error(findings.curves), _spread(findings)]
    return [*made, _uses(findings), _agreements(findings), _coverage(findings)]


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


def _jaccard(curves: Sequence[Curve]) -> Table:
    note = "Jaccard; 1 is the same set. Spans that no method may drop are left out."
    columns, rows = _by_size(curves, [curve.jaccards() for curve in curves], _PAPER_JACCARD)
    title = "Overlap of the keep-set with the converged one"
    return Table("jaccard", title, f"{note} {_BRACKETS} {_PAPER}", columns, rows, stub="Estimator")


def _error(curves: Sequence[Curve]) -> Table:
    note = "The largest |û(N) − u*| over an event's spans; of the divergence, as a share of the mean largest u*."
    columns, rows = _by_size(curves, [curve.errors() for curve in curves], _PAPER_ERROR)
    return Table("error", "Worst-span error", f"{note} {_BRACKETS} {_PAPER}", columns, rows, stub="Estimator")


def _by_size(
    curves: Sequence[Curve], found: Sequence[Sequence[Interval]], paper: dict[tuple[str, int], float]
) -> tuple[list[Column], list[Row]]:
    sizes = [size for size in _SHOWN if any(size in curve.sizes for curve in curves)]
    rows = []
    for curve, intervals in zip(curves, found, strict=True):
        at = dict(zip(curve.sizes, intervals, strict=True))
        cells = [cell_of(at.get(size), 3, paper=paper.get((curve.name, size))) for size in sizes]
        rows.append(Row(curve.name, cells))
    return [Column(f"N = {size:,}") for size in sizes], rows


def _spread(findings: Findings) -> Table:
    rows = [
        Row(
            spread.name,
            [
                Number(100 * sum(value == 0 for value in spread.values) / len(spread.values), 0),
                Number(100 * sum(value == 1 for value in spread.values) / len(spread.values), 0),
                Number(100 * spread.extremes, 0, paper=92 if spread.name == "N = 3" else None),
                Number(100 * spread.near(findings.threshold), 0),
            ],
        )
        for spread in findings.spreads
    ]
    columns = [Column("no sketch %"), Column("every sketch %"), Column("either %"), Column("within 1/6 of τ %")]
    note = "Of the spans that may be dropped, the share with such a utility. Paper: AppWorld, gpt-4.1, N = 3."
    return Table("spread", "How utilities are spread", note, columns, rows, stub="Utilities from")


def _uses(findings: Findings) -> Table:
    rows = [
        Row(
            use.estimator,
            [cell_of(use.auc), cell_of(use.recall), f"{use.events}"],
            baseline=use.estimator == "hindsight",
        )
        for use in findings.uses
    ]
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
        if not _worth_telling(one):
            continue
        theirs = {one.left, one.right} == {"citations", "action divergence"}
        rows.append(
            Row(
                f"{one.left}, {one.right}",
                [
                    cell_of(one.overlap, paper=0.85 if theirs else None),
                    Number(one.chance),
                    cell_of(one.decisions, paper=0.39 if theirs else None),
                    cell_of(one.utilities),
                    f"{one.events}",
                ],
            )
        )
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


def _worth_telling(one: Agreement) -> bool:
    """Citations against all others, and the divergences among themselves."""
    return one.left == "citations" or {one.left, one.right} <= {"action divergence", "plan divergence", "hindsight"}


def _coverage(findings: Findings) -> Table:
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


def document(findings: Findings, command: str) -> Document:
    return Document(
        "The estimator study",
        [f"Made by focusctx {__version__}:", f"    {command}"],
        [Section("study", f"Draft {findings.draft}", facts(findings), tables(findings), figures(findings))],
    )


def facts(findings: Findings) -> str:
    files = _listed([f"{count} of {file}" for file, count in findings.files.items()])
    text = (
        f"{findings.events} events ({files}), {findings.sketches:,} sketches or more at each that are plans; "
        f"{100 * findings.no_plans:.1f} % of the replies are none and do not vote. τ = {findings.threshold:g}."
    )
    if findings.model is not None:
        sampled = findings.model.endswith(" samples")
        text += f" Divergences by {'choices' if sampled else 'the probabilities'} of {findings.model}."
    return text


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
