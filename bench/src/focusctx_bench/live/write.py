"""Write a live comparison: a table, a picture, and the numbers of every run."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.replay.lines import Interval

from ..report.drawing import MARKERS, Figure, Theme, drawn
from .arms import Arm, difference, pair, reference_of
from .measures import CACHED, LiveRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD = (
    "arm",
    "done",
    "won / lost",
    "p",
    "tokens per request",
    "of the full history",
    "tokens in all",
    "at cache prices",
    "draft's tokens",
    "steps",
    "deeds done twice",
    "look-ups repeated",
    "asked again",
    "prefix moves",
)
_PAIRED = {
    "success": "score",
    "tokens_per_request": "tokens per request",
    "cache_priced": "tokens at cache prices",
    "steps": "steps",
    "deeds_twice": "deeds done twice",
    "lookups_repeated": "look-ups repeated",
    "asked_again": "asked again",
}
_NOTES = f"""\
Done: the benchmark's own score, with a 95 % Wilson interval. Won and lost: tasks in which only this arm, or only the \
reference, succeeded, with the p value of an exact McNemar test. Everything else is a mean per task. Tokens are \
cl100k_base, without system prompt and tool definitions; of the full history: tokens sent, as a share of what the same \
run would have sent uncompressed. At cache prices: tokens in the unchanged beginning of a request count {CACHED:g}. \
Deeds done twice: a call that changes something, repeated with equal arguments after it had succeeded. Look-ups \
repeated: a call that only reads, repeated with equal arguments when its result was no longer sent (through a proxy: \
when anything was left out). Asked again: questions whose words an earlier, answered question had; an estimate."""


def write(arms: Sequence[Arm], out: Path, reference: str | None = None) -> list[Path]:
    """Write all files into the folder, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    runs = [run for arm in arms for run in arm.runs.values()]
    files = [_table(arms, out, reference), _csv(runs, out / "runs.csv"), _jsonl(runs, out / "runs.jsonl")]
    for benchmark, some in _by_benchmark(arms):
        note = "In bars: 95 % confidence."
        figure = Figure(benchmark, f"{benchmark}: success against tokens per request", note, partial(_draw, some))
        for form in ("svg", "png"):
            path = out / f"{benchmark}.{form}"
            path.write_bytes(drawn(figure, form=form))
            files.append(path)
    return files


def _table(arms: Sequence[Arm], out: Path, reference: str | None) -> Path:
    parts = []
    for benchmark, some in _by_benchmark(arms):
        base = reference_of(some, reference)
        parts.append(f"## {benchmark}\n\n{_main(some, base)}\n\n![success against tokens per request]({benchmark}.svg)")
        if len(some) > 1:
            heading = f"Difference to {base.name}, task by task, with 95 % bootstrap intervals:"
            parts.append(f"{heading}\n\n{_paired(some, base)}")
    path = out / "table.md"
    path.write_text("# Live runs\n\n" + "\n\n".join([*parts, _NOTES]) + "\n", encoding="utf-8")
    return path


def _main(arms: Sequence[Arm], base: Arm) -> str:
    rows = []
    for arm in arms:
        against = pair(arm, base)
        compared = arm is not base and against.tasks > 0
        rows.append(
            [
                arm.name,
                _done(arm),
                f"{against.won} / {against.lost} of {against.tasks}" if compared else "–",
                _p_value(against.p) if compared else "–",
                f"{arm.mean('tokens_per_request'):,.0f}",
                f"{arm.mean('share'):.0%}",
                f"{arm.mean('tokens'):,.0f}",
                f"{arm.mean('cache_priced'):,.0f}",
                f"{arm.mean('draft_tokens'):,.0f}",
                *(f"{arm.mean(number):.1f}" for number in ("steps", "deeds_twice", "lookups_repeated", "asked_again")),
                f"{arm.mean('prefix_moves'):.1f}",
            ]
        )
    return _markdown(_HEAD, rows)


def _p_value(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else "< 0.01"


def _done(arm: Arm) -> str:
    found = arm.success
    done = sum(run.success for run in arm.runs.values())
    return f"{done:g} of {len(arm.runs)} [{found.low:.0%}, {found.high:.0%}]"


def _paired(arms: Sequence[Arm], base: Arm) -> str:
    rows = []
    for arm in arms:
        if arm is not base and pair(arm, base).tasks:
            rows.append([arm.name, *(_signed(difference(arm, base, number)) for number in _PAIRED)])
    return _markdown(["arm", *_PAIRED.values()], rows)


def _signed(found: Interval) -> str:
    digits = 0 if abs(found.mean) >= 100 else 2
    return f"{found.mean:+,.{digits}f} [{found.low:+,.{digits}f}, {found.high:+,.{digits}f}]"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *rows))


def _draw(arms: Sequence[Arm], axes: Axes, theme: Theme) -> None:
    for number, arm in enumerate(arms):
        found = arm.success
        axes.errorbar(
            [arm.mean("tokens_per_request")],
            [100 * found.mean],
            yerr=[[100 * (found.mean - found.low)], [100 * (found.high - found.mean)]],
            marker=MARKERS[number % len(MARKERS)],
            color=theme.colours[number % len(theme.colours)],
            capsize=3,
            linestyle="none",
            label=f"{arm.name} ({len(arm.runs)})",
        )
    axes.set_xlabel("tokens per request, mean")
    axes.set_ylabel("tasks done, %")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 105)
    axes.legend(loc="lower left")


def _csv(runs: Sequence[LiveRun], path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(LiveRun)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(run.to_json() for run in runs)
    return path


def _jsonl(runs: Sequence[LiveRun], path: Path) -> Path:
    path.write_text("".join(json.dumps(run.to_json()) + "\n" for run in runs), encoding="utf-8")
    return path


def _by_benchmark(arms: Sequence[Arm]) -> list[tuple[str, list[Arm]]]:
    ordered = sorted(arms, key=lambda arm: arm.benchmark)  # stable: arms stay in the order they were given
    return [(name, list(some)) for name, some in groupby(ordered, key=lambda arm: arm.benchmark)]
