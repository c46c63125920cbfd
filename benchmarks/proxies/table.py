"""The tables, as Markdown, each figure with its bar where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from .contenders import AFTER, APPLIES, AT_ONCE, FAR, NAMES, NEAR
from .measure import Figures
from .plan import SIZES, Cell

Cells: TypeAlias = dict[tuple[str, Cell], Figures]
CPU_BARS = {FAR: 2.0, NEAR: 2.0, AFTER: 2.0, APPLIES: 4.0, AT_ONCE: 4.0}
RATE_BAR = 15.0
START_BAR = (1.5, 120.0)
OTHERS = ("LiteLLM", "headroom")


@dataclass(frozen=True)
class Start:
    """What a proxy took to start."""

    cpu: float
    memory: float


@dataclass(frozen=True)
class Results:
    starts: dict[str, Start]
    at_once: Cells
    one_by_one: Cells
    versions: dict[str, str]


def show(results: Results) -> list[str]:
    """Prints everything; returns what missed its bar."""
    missed: list[str] = []
    for workload in ("growing", "same", "crossing"):
        cells = [Cell(size, stream, workload) for size, stream in product(SIZES, (False, True))]
        print(f"\n### 32 at once, {workload}: CPU per request, and against the floor\n")
        missed += _table(results.at_once, cells, _cpu)
        print(f"\n### 32 at once, {workload}: requests per second, and focusctx against LiteLLM, headroom\n")
        missed += _table(results.at_once, cells, _rate)
    for workload in ("growing", "crossing"):
        cells = [Cell(size, stream, workload) for size, stream in product(SIZES, (False, True))]
        print(f"\n### One at a time, {workload}: added to the time to the first byte, p50 / p99\n")
        missed += _table(results.one_by_one, cells, _added)
        print(f"\n### One at a time, {workload}: CPU per request, and against the floor\n")
        missed += _table(results.one_by_one, cells, _cpu)
    missed += _starts(results)
    for miss in missed:
        print(f"\nbar missed: {miss}")
    return missed


Show: TypeAlias = Callable[[Cells, str, Cell], tuple[str, bool]]


def _table(figures: Cells, cells: list[Cell], show: Show) -> Iterable[str]:
    """A row for each contender, a column for each cell."""
    print(f"| | {' | '.join(cell.name for cell in cells)} |\n|---|{'---|' * len(cells)}")
    missed = []
    for name in NAMES:
        if not any((name, cell) in figures for cell in cells):
            continue
        texts = []
        for cell in cells:
            text, fine = show(figures, name, cell)
            texts.append(text)
            if not fine:
                missed.append(f"{name}, {cell.workload} {cell.name}: {text}")
        print(f"| {name} | {' | '.join(texts)} |")
    return missed


def _cpu(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine = figures[name, cell].cpu_per_request
    text = f"{mine * 1e3:.2f} ms"
    if ("floor", cell) not in figures or name in ("direct", "floor"):
        return text, True
    ratio, bar = mine / figures["floor", cell].cpu_per_request, CPU_BARS.get(name)
    if bar is None:
        return f"{text} ×{ratio:.0f}", True
    return f"{text} ×{ratio:.2f} (bar {bar:.0f})", ratio <= bar


def _rate(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine = figures[name, cell].rate
    if name not in CPU_BARS:
        return f"{mine:,.0f}", True
    compared = Cell(cell.size, cell.stream, "growing") if cell.workload == "crossing" else cell
    ratios = [mine / figures[other, compared].rate for other in OTHERS if (other, compared) in figures]
    against = "".join(f" ×{ratio:.0f}" for ratio in ratios)
    return f"{mine:,.0f}{against}" + (f" (bar {RATE_BAR:.0f})" if ratios else ""), min(ratios, default=99) >= RATE_BAR


def _added(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine = figures[name, cell]
    middle, late = mine.percentile(50), mine.percentile(99)
    if name == "direct" or ("direct", cell) not in figures:
        return f"{middle * 1e3:.2f} / {late * 1e3:.2f} ms", True
    direct = figures["direct", cell]
    return f"+{(middle - direct.percentile(50)) * 1e3:.2f} / +{(late - direct.percentile(99)) * 1e3:.2f} ms", True


def _starts(results: Results) -> Iterable[str]:
    print("\n### Until it listens\n\n| | version | CPU | resident |\n|---|---|---|---|")
    missed = []
    for name, start in results.starts.items():
        if name in results.versions:
            bar = " (bar 1.5 s, 120 MiB)" if name == FAR else ""
            text = f"{start.cpu:.2f} s | {start.memory:.0f} MiB{bar}"
            print(f"| {name} | {results.versions[name]} | {text} |")
            if bar and (start.cpu > START_BAR[0] or start.memory > START_BAR[1]):
                missed.append(f"start-up: {text}")
    return missed
