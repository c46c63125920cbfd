"""What proxies cost, side by side in one run: focusctx, LiteLLM, headroom, and the least a proxy can do (the floor).

Agents send whole histories of about 2,000 and 30,000 tokens that grow by about 300 tokens with every request, 32
conversations at once, to a local upstream that answers at once, whole or in 100 SSE chunks. The client, the upstream
and the proxy share this machine, so the CPU time per request of the proxy's process is the main figure and requests
per second the second; both as ratios within the run.

    bash scripts/contenders                  # LiteLLM and headroom, once; without them the rest is measured
    python benchmarks/proxy.py --check       # --rounds 1: a smoke run; --only floor,focusctx

Bars, exit 1 with --check when one is missed: CPU per request at most 3 × the floor's when nothing is due and 5 × on
the request that applies a decision; 10 × the requests per second of LiteLLM and of headroom; until it listens, 1.5 s
of CPU and 120 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from proxies.contenders import HERE, TITLES, Contender, Server, Stage, free_port
from proxies.measure import Figures, Target, Upstream, measure
from proxies.plan import SIZES, WORKLOADS, Cell, conversations
from proxies.table import Cells, Start, Tables

CONCURRENCY = 32
PACE = 0.001
"""Seconds between the chunks of a stream when requests come one at a time: every chunk is then read on its own."""
ATTEMPTS = 4
"""A proxy whose disk does not answer in time forwards unchanged for a while: right, and not what is measured."""
REST = 10.0
"""Seconds between them."""
SLOW_ROUNDS = {"at once": 1, "one by one": 3}


@dataclass(frozen=True)
class Running:
    """A contender that listens."""

    contender: Contender
    server: Server
    target: Target
    start: Start

    def takes(self, cell: Cell) -> bool:
        return cell.workload in self.contender.workloads and cell.size in self.contender.sizes

    async def measure(self, cell: Cell, seed: str, upstream: Upstream, *, number: int = CONCURRENCY) -> Figures:
        """One round, at once unless the seed says otherwise. A proxy that did not do what is measured goes again."""
        for attempt in range(ATTEMPTS):
            requests = conversations(cell, number, f"{seed} {attempt}")
            at_once = not seed.startswith("one by one")
            figures = await measure(self.target, self.server, upstream, requests, at_once=at_once)
            (share,) = figures.shrunk
            if not self.contender.name.startswith("focusctx") or (share < 0.8) == self.contender.shrinks:
                return figures
            say(f"{self.contender.name}, {cell.workload}, {cell.name}: {share:.0%} of the bytes went up; once more")
            await asyncio.sleep(REST)
        raise RuntimeError(f"{self.contender.name} does not do what is to be measured:\n{self.server.said()}")


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def start(contender: Contender, port: int, log: Path, stack: ExitStack) -> Running:
    say(f"starting {contender.name}")
    server = stack.enter_context(Server(contender.command, port, log, contender.environment))
    server.wait_until_it_listens()
    return Running(contender, server, Target(port), Start(server.cpu(), server.memory()))


def start_all(stage: Stage, names: list[str], stack: ExitStack) -> Iterator[Running]:
    for name in names:
        if not stage.is_here(name):
            say(f"{name} is not installed: bash scripts/contenders")
            continue
        for size in SIZES:
            port = free_port()
            contender = stage.contender(name, port, size)
            yield start(contender, port, stage.scratch / f"{port}.log", stack)
            if contender.sizes == SIZES:
                break


async def in_turns(
    how: str, running: list[Running], upstream: Upstream, workloads: tuple[str, ...], rounds: int
) -> Cells:
    """Measure every cell, round by round, the contenders in turns on the same conversations."""
    cells: Cells = defaultdict(Figures)
    for workload, size, stream in product(workloads, SIZES, (False, True)):
        cell = Cell(size, stream, workload)
        say(f"{how}: {workload}, {cell.name}")
        for number in range(rounds * size.weight if rounds > 1 else 1):
            for each in running:
                if each.takes(cell) and not (each.contender.slow and number >= SLOW_ROUNDS[how]):
                    many = CONCURRENCY if how == "at once" else 6
                    figures = await each.measure(cell, f"{how} {number}", upstream, number=many)
                    cells[each.contender.name, cell].add(figures)
    return cells


async def run(running: list[Running], upstream: Upstream, tables: Tables, rounds: int) -> None:
    for each in running:  # the first requests pay for what is imported late
        for size, stream in product(each.contender.sizes, (False, True)):
            cell = Cell(size, stream, each.contender.workloads[0])
            await each.measure(cell, "warm-up", upstream, number=4)
    tables.at_once(await in_turns("at once", running, upstream, WORKLOADS, rounds))
    upstream.pace(PACE)
    tables.one_by_one(await in_turns("one by one", running, upstream, ("growing", "crossing"), rounds))
    for each in running:
        each.target.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="of everything (8); the figures of one round are rough")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--only", help=f"of {', '.join(TITLES)}; `focusctx` is all of focusctx's")
    default = Path(__file__).resolve().parent.parent / ".contenders"
    parser.add_argument("--contenders-folder", type=Path, default=default, help="where scripts/contenders put them")
    arguments = parser.parse_args()
    wanted = tuple(arguments.only.split(",")) if arguments.only else ("",)
    names = [name for name in TITLES if name.startswith(wanted)]
    tables = Tables()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are ended, too
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores.")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        port = free_port()
        direct = Contender("direct", (sys.executable, str(HERE / "upstream.py"), str(port)))
        upstream = start(direct, port, Path(scratch) / "upstream.log", stack)
        stage = Stage(f"http://127.0.0.1:{port}", arguments.contenders_folder, Path(scratch))
        running = [*start_all(stage, [name for name in names if name != "direct"], stack)]
        everyone = [upstream, *running] if "direct" in names else running
        asyncio.run(run(everyone, Upstream(port), tables, arguments.rounds))
        versions = {each.contender.name: stage.version(each.contender.name) for each in running}
        tables.starts({each.contender.name: each.start for each in running}, versions)
    for miss in tables.missed:
        print(f"\nBar missed: {miss}")
    return int(bool(tables.missed) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
