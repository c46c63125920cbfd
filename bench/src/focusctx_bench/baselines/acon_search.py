"""Make ACON's two guidelines for a benchmark: training runs, what they teach, and a guideline that follows it.

Each stage leaves its outcome in the folder, and a stage whose outcome is there is not done again:

    start/      training tasks with the full history and under the start guideline
    ut.md       the guideline improved on tasks that went worse under it; ut.json says how it was made
    ut/         the same tasks under ut.md
    utco.md     ut.md shortened on tasks that went as well under it as with the full history; utco.json as above
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from focusctx import __version__
from focusctx.errors import BenchError

from ..folder import BenchFolder
from ..job import Job
from ..record import Record
from .acon import START, read_guideline
from .acon_optimiser import Optimised, Run, contrasts, improve, shorten, successes
from .ask import Ask

RunJob: TypeAlias = Callable[[Job, BenchFolder], Awaitable[None]]
"""Does what a job's folder has no record of. Raises `Unfinished` if tasks are left."""


class Unfinished(BenchError):
    """Training tasks are left: the spending limit was reached, or tasks failed."""


@dataclass(frozen=True, slots=True)
class Guidelines:
    ut: Path
    utco: Path
    cost: float | None
    """USD of the training runs and of the optimiser together; None if some model has no price."""


async def make_guidelines(job: Job, optimiser: str, ask: Ask, folder: Path, run: RunJob) -> Guidelines:
    """Make both guidelines. `job` names the training tasks, the agent and the compressor; its methods are set here."""
    folder.mkdir(parents=True, exist_ok=True)
    start = folder / "start.md"
    if not start.exists():
        _write(start, START)
    before = await _trained(replace(job, methods=("none", "acon-ut")), start, folder / "start", run)
    ut = folder / "ut.md"
    if not ut.exists():
        pairs = contrasts(_of(before, "none"), _of(before, "acon-ut"))
        if not pairs:
            raise BenchError(
                "no training task went worse under the start guideline than with the full history, so there is nothing "
                "to learn from: give more tasks (--tasks) or a smaller --budget, in another folder"
            )
        _keep(ut, await improve(ask, read_guideline(start), pairs), job, optimiser, [pair.full for pair in pairs])
    after = await _trained(replace(job, methods=("acon-ut",)), ut, folder / "ut", run)
    utco = folder / "utco.md"
    if not utco.exists():
        runs = successes(_of(before, "none"), _of(after, "acon-ut"))
        if not runs:
            raise BenchError(f"no training task went well with a summary under {ut}: there is nothing to shorten by")
        _keep(utco, await shorten(ask, read_guideline(ut), runs), job, optimiser, runs)
    return Guidelines(ut, utco, cost_of(folder))


def cost_of(folder: Path) -> float | None:
    """Return the USD that the folder has cost so far, training runs and optimiser."""
    costs = [BenchFolder(folder / name).spent() for name in ("start", "ut") if (folder / name).is_dir()]
    for name in ("ut.json", "utco.json"):
        if (folder / name).exists():
            cost = json.loads((folder / name).read_text(encoding="utf-8"))["optimiser_cost"]
            if cost is None:
                return None
            costs.append(cost)
    return sum(costs)


async def _trained(job: Job, guideline: Path, path: Path, run: RunJob) -> list[Record]:
    folder = BenchFolder(path)
    await run(replace(job, guideline_ut=str(guideline.absolute())), folder)
    return list(folder.records)


def _of(records: Sequence[Record], method: str) -> list[Record]:
    return [record for record in records if record.method == method]


def _keep(path: Path, made: Optimised, job: Job, optimiser: str, learnt_from: Sequence[Run]) -> None:
    """Write a guideline and how it came about; the guideline last, since its file says that the stage is done."""
    about = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "focusctx": __version__,
        "benchmarks": {name: {"split": one.split, "seed": one.seed} for name, one in job.benchmarks.items()},
        "agent": job.model or "the benchmark's scripted agent",
        "compressor": job.compressor,
        "optimiser": optimiser,
        "budgets": {name: job.budgets_of(name) for name in job.benchmarks},
        "tasks": [run.task for run in learnt_from],
        "optimiser_requests": made.usage.requests,
        "optimiser_tokens": [made.usage.input_tokens, made.usage.output_tokens],
        "optimiser_cost": made.usage.cost,
        "feedback": made.feedback,
    }
    _write(path.with_suffix(".json"), json.dumps(about, ensure_ascii=False, indent=1))
    _write(path, made.guideline)


def _write(path: Path, text: str) -> None:
    """Write a whole file or none."""
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(f"{text.strip()}\n", encoding="utf-8")
    unfinished.replace(path)
