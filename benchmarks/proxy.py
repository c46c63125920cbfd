"""What proxies cost, side by side in one run: focusctx, LiteLLM, headroom, and the least a proxy can do (the floor).

Agents send whole histories of about 2,000 and 30,000 tokens that grow by about 300 tokens with every request, 32
conversations at once, to a local upstream that answers at once, whole or in 100 SSE chunks. Two cores are shared with
the upstream and the client, so the CPU time per request of the proxy's process is the main figure and requests per
second the second; both as ratios against the floor in the same run.

    bash scripts/contenders                  # LiteLLM and headroom, once; without them the rest is measured
    python benchmarks/proxy.py --check       # --quick: a smoke run; --only NAME,NAME

Bars, exit 1 with --check when one is missed: CPU per request at most 2 × the floor's when nothing is due and 4 × on
the request that applies a decision; 15 × the requests per second of LiteLLM and of headroom; start-up below 1.5 s of
CPU and 120 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from proxies import table
from proxies.contenders import HERE, NAMES, Contender, Stage
from proxies.load import Target
from proxies.measure import Figures, Upstream, measure
from proxies.plan import SIZES, WORKLOADS, Cell, conversations
from proxies.process import Server, free_port

CONCURRENCY = 32
PACE = 0.001
"""Seconds between the chunks of a stream when requests come one at a time, so that every chunk is one of its own."""


@dataclass(frozen=True)
class Running:
    """A contender whose process answers."""

    contender: Contender
    server: Server
    target: Target
    start: table.Start

    def takes(self, cell: Cell) -> bool:
        return cell.workload in self.contender.workloads and cell.size in self.contender.sizes


def start(contender: Contender, port: int, log: Path, stack: ExitStack) -> Running:
    say(f"{contender.name} …")
    server = stack.enter_context(Server(contender.command, port, log, contender.environment))
    server.wait_until_it_listens()
    first = table.Start(server.cpu(), server.memory())
    return Running(contender, server, Target(port), first)


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def start_all(stage: Stage, names: list[str], stack: ExitStack) -> Iterator[Running]:
    for name in names:
        if name == "direct":
            continue
        if not stage.is_here(name):
            say(f"{name} is not installed: bash scripts/contenders")
            continue
        for size in SIZES:
            port = free_port()
            contender = stage.contender(name, port, size)
            yield start(contender, port, stage.scratch / f"{port}.log", stack)
            if contender.sizes == SIZES:
                break


async def throughput(running: list[Running], upstream: Upstream, quick: bool) -> table.Cells:
    """32 conversations at once, the contenders in turns."""
    cells: table.Cells = defaultdict(Figures)
    for workload, size, stream in product(WORKLOADS, SIZES, (False, True)):
        cell = Cell(size, stream, workload)
        say(f"{CONCURRENCY} at once: {workload}, {cell.name}")
        for number in range(2 if quick else size.rounds):
            requests = conversations(cell, CONCURRENCY, f"at once {number}")
            for each in running:
                if each.takes(cell) and not (each.contender.slow and number > 0):
                    figures = cells[each.contender.name, cell]
                    await measure(each.target, each.server, upstream, requests, figures, at_once=True)
    return cells


async def latency(running: list[Running], upstream: Upstream, quick: bool) -> table.Cells:
    """One request at a time, the contenders in turns."""
    cells: table.Cells = defaultdict(Figures)
    for workload, size, stream in product(("growing", "crossing"), SIZES, (False, True)):
        cell = Cell(size, stream, workload)
        say(f"one at a time: {workload}, {cell.name}")
        for number in range(2 if quick else 10):
            requests = conversations(cell, 4 if workload == "growing" else 10, f"one at a time {number}")
            for each in running:
                if each.takes(cell) and not (each.contender.slow and number > 2):
                    figures = cells[each.contender.name, cell]
                    await measure(each.target, each.server, upstream, requests, figures, at_once=False)
    return cells


async def run(stage: Stage, names: list[str], upstream: Running, stack: ExitStack, quick: bool) -> table.Results:
    running = [*start_all(stage, names, stack)]
    provider = Upstream(upstream.target.port)
    if "direct" in names:
        running.insert(0, upstream)
    for each in running:  # the first requests pay for what is imported late
        for size, stream in product(each.contender.sizes, (False, True)):
            cell = Cell(size, stream, each.contender.workloads[0])
            await measure(
                each.target, each.server, provider, conversations(cell, 4, "warm-up"), Figures(), at_once=True
            )
    at_once = await throughput(running, provider, quick)
    provider.pace(PACE)
    one_by_one = await latency(running, provider, quick)
    for each in running:
        each.target.close()
    versions = {name: stage.version(name) for name in names if name != "direct" and stage.is_here(name)}
    return table.Results({each.contender.name: each.start for each in running}, at_once, one_by_one, versions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few minutes: figures are rough")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of: {', '.join(NAMES)}; beginnings do")
    default = Path(__file__).resolve().parent.parent / ".contenders"
    parser.add_argument("--contenders-folder", type=Path, default=default, help="where scripts/contenders put them")
    arguments = parser.parse_args()
    names = [name for name in NAMES if not arguments.only or any(name.startswith(wanted) for wanted in arguments.only)]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        port = free_port()
        direct = Contender("direct", (sys.executable, str(HERE / "upstream.py"), str(port)))
        upstream = start(direct, port, Path(scratch) / "upstream.log", stack)
        stage = Stage(f"http://127.0.0.1:{port}", arguments.contenders_folder, Path(scratch))
        results = asyncio.run(run(stage, names, upstream, stack, arguments.quick))
    missed = table.show(results)
    return int(bool(missed) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
