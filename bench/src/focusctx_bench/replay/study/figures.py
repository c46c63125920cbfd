"""The study's figures: the keep-set settling, the error falling, the spread of utilities, coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from focusctx.replay.lines import Interval

from ...report.drawing import MARKERS, Figure, Theme, bars
from .convergence import Curve
from .findings import Findings
from .votes import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER_ERROR = {1: 0.25, 10: 0.089, 300: 0.025}
_PAPER_JACCARD = {1: 0.92}


def figures(findings: Findings) -> list[Figure]:
    return [_settling(findings), _error(findings), _spread(findings), _coverage(findings)]


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


def _error(findings: Findings) -> Figure:
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
    axes: Axes,
    theme: Theme,
    curves: Sequence[Curve],
    of: Callable[[Curve], list[Interval]],
    *,
    slopes: bool = False,
) -> None:
    for place, curve in enumerate(curves):
        found = of(curve)
        slope = curve.slope() if slopes else None
        name = curve.name + (f" (slope {slope.mean:.2f})".replace("-", "−") if slope else "")
        colour = theme.colours[place]
        axes.plot(curve.sizes, [one.mean for one in found], color=colour, marker=MARKERS[place], label=name)
        low, high = [max(one.low, 1e-4) for one in found], [one.high for one in found]
        axes.fill_between(curve.sizes, low, high, color=colour, alpha=0.15, linewidth=0)


def _spread(findings: Findings) -> Figure:
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


def _coverage(findings: Findings) -> Figure:
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
