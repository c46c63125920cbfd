"""One contender on one cell: the conversations so far, then the requests that count, with clocks read around them."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from .load import Target
from .plan import Requests
from .process import Server


@dataclass
class Figures:
    """What was read off, one entry per round; `first_bytes` one per request."""

    cpu: list[float] = field(default_factory=list)
    """Seconds of the proxy's CPU time per request."""
    rates: list[float] = field(default_factory=list)
    """Requests per second."""
    first_bytes: list[float] = field(default_factory=list)
    shrunk: list[float] = field(default_factory=list)
    """Bytes that went up, as a share of those that came."""

    def add(self, other: Figures) -> None:
        self.cpu += other.cpu
        self.rates += other.rates
        self.first_bytes += other.first_bytes
        self.shrunk += other.shrunk

    @property
    def cpu_per_request(self) -> float:
        return median(self.cpu)

    @property
    def rate(self) -> float:
        return median(self.rates)

    def percentile(self, percent: int) -> float:
        ordered = sorted(self.first_bytes)
        return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


class Upstream:
    """The fake provider, asked directly."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def pace(self, seconds: float) -> None:
        self._get(f"/pace/{seconds}")

    def received(self) -> int:
        return int(self._get("/seen")["received"])

    def _get(self, path: str) -> dict[str, int]:
        with urllib.request.urlopen(self.url + path) as answer:
            content: dict[str, int] = json.load(answer)
            return content


async def measure(
    target: Target, server: Server, upstream: Upstream, requests: Sequence[Requests], *, at_once: bool
) -> Figures:
    """One round: all conversations at once, or one after the other."""
    figures = Figures()
    await target.all_at_once([each.before for each in requests])
    await settle(server)
    cpu, received = server.cpu(), upstream.received()
    started = time.perf_counter()
    if at_once:
        await target.all_at_once([each.measured for each in requests])
    else:
        for each in requests:
            figures.first_bytes += await target.converse(each.measured)
    taken = time.perf_counter() - started
    await settle(server)
    number = sum(len(each.measured) for each in requests)
    figures.cpu.append((server.cpu() - cpu) / number)
    figures.rates.append(number / taken)
    came = sum(len(body) for each in requests for body in each.measured)
    figures.shrunk.append((upstream.received() - received) / came)
    return figures


async def settle(server: Server) -> None:
    """Until what a proxy does after its answers is done: logs, totals, files. A short rest may be the scheduler's."""
    idle, before = 0, server.cpu()
    for _ in range(200):
        await asyncio.sleep(0.05)
        now = server.cpu()
        idle = idle + 1 if now - before < 0.002 else 0
        if idle == 3:
            return
        before = now
