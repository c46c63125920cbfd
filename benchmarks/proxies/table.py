"""The tables, as Markdown, each figure with its bar where it has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from .contenders import TITLES
from .measure import Figures
from .plan import SIZES, Cell

Cells: TypeAlias = dict[tuple[str, Cell], Figures]
CPU_BARS = {"focusctx-far": 3.0, "focusctx-near": 3.0, "focusctx-after": 3.0, "focusctx-applies": 5.0}
RATE_BAR = 10.0
CPU_TO_START, MEMORY = 1.5, 120.0
WORKLOADS = {
    "growing": "histories that grow by a step with every request",
    "same": "the same request again and again",
    "crossing": "the request in which the history crosses the budget",
}


@dataclass(frozen=True)
class Start:
    """Seconds of CPU time and MiB that a proxy took until it listened."""

    cpu: float
    memory: float


@dataclass
class Tables:
    """`missed` is what did not reach its bar."""

    missed: list[str] = field(default_factory=list)

    def at_once(self, cells: Cells) -> None:
        for workload, what in WORKLOADS.items():
            print(f"\n## 32 conversations at once: {what}\n\nCPU time of the proxy per request, against the floor's:\n")
            self._table(cells, workload, _cpu)
            print("\nRequests per second; focusctx against LiteLLM and headroom:\n")
            self._table(cells, workload, _rate)

    def one_by_one(self, cells: Cells) -> None:
        for workload in ("growing", "crossing"):
            print(f"\n## One request at a time: {WORKLOADS[workload]}\n\nTime to the first byte, p50 and p99;")
            print("for proxies, what they add to it:\n")
            self._table(cells, workload, _added)
            print("\nCPU time of the proxy per request, against the floor's (a stream's chunks come 1 ms apart):\n")
            self._table(cells, workload, _cpu)

    def starts(self, starts: dict[str, Start], versions: dict[str, str]) -> None:
        print(f"\n## Until it listens\n\nBars for focusctx: {CPU_TO_START} s, {MEMORY:.0f} MiB.\n")
        print("| | version | CPU time | resident |\n|---|---|---|---|")
        for name, start in starts.items():
            if name in versions:
                text = f"{start.cpu:.2f} s | {start.memory:.0f} MiB"
                print(f"| {TITLES[name]} | {versions[name]} | {text} |")
                if name.startswith("focusctx") and (start.cpu > CPU_TO_START or start.memory > MEMORY):
                    self.missed.append(f"{TITLES[name]} until it listens: {text}")

    def _table(self, figures: Cells, workload: str, show: Show) -> None:
        """A row for each contender, a column for each cell."""
        cells = [Cell(size, stream, workload) for size, stream in product(SIZES, (False, True))]
        print(f"| | {' | '.join(cell.name for cell in cells)} |\n|---|{'---|' * len(cells)}")
        for name, title in TITLES.items():
            if name == "direct" and show is _cpu:
                continue
            if any((name, cell) in figures for cell in cells):
                shown = [show(figures, name, cell) for cell in cells]
                print(f"| {title} | {' | '.join(text for text, _ in shown)} |")
                self.missed += [
                    f"{title}, {workload}, {cell.name}: {text}"
                    for cell, (text, fine) in zip(cells, shown, strict=True)
                    if not fine
                ]


Show: TypeAlias = Callable[[Cells, str, Cell], tuple[str, bool]]
"""The text of a cell, and whether it reaches its bar."""


def _cpu(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine = figures[name, cell].cpu_per_request
    text = f"{mine * 1e3:.2f} ms"
    if ("floor", cell) not in figures or name == "floor":
        return text, True
    ratio, bar = mine / figures["floor", cell].cpu_per_request, CPU_BARS.get(name)
    text = f"{text}, ×{ratio:.{1 if ratio < 10 else 0}f}"
    return (text, True) if bar is None else (f"{text} (bar {bar:.0f})", ratio <= bar)


def _rate(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine = figures[name, cell].rate
    if not name.startswith("focusctx"):
        return f"{mine:,.0f}", True
    same = Cell(cell.size, cell.stream, "growing") if cell.workload == "crossing" else cell  # as long, and not special
    ratios = [mine / figures[other, same].rate for other in ("litellm", "headroom") if (other, same) in figures]
    against = "".join(f", ×{ratio:.0f}" for ratio in ratios)
    return f"{mine:,.0f}{against}" + (f" (bar {RATE_BAR:.0f})" if ratios else ""), min(ratios, default=99) >= RATE_BAR


def _added(figures: Cells, name: str, cell: Cell) -> tuple[str, bool]:
    mine, direct = figures[name, cell], figures.get(("direct", cell))
    late = [mine.percentile(50), mine.percentile(99)]
    if direct is None or name == "direct":
        return " / ".join(f"{seconds * 1e3:.2f}" for seconds in late) + " ms", True
    added = [late[0] - direct.percentile(50), late[1] - direct.percentile(99)]
    return " / ".join(f"{seconds * 1e3:+.2f}" for seconds in added) + " ms", True
