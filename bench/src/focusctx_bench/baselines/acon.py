"""Make ACON's two guidelines for a benchmark: training runs, what they teach, and a guideline that follows it.

Each stage leaves its outcome in the folder, and a stage whose outcome is there is not done again:

    start/      training tasks with the full history and under the start guideline
    ut.md       the guideline improved on tasks that went worse under it; ut.json says how it was made
    ut/         the same tasks under ut.md
    utco.md     ut.md shortened on tasks that went as well under it as with the full history; utco.json as above

A strong model is asked for feedback on every run, then for a guideline that follows all of it. `improve` (UT) looks
at tasks that went worse with summaries than with the full history: what did the summaries leave out? `shorten` (CO)
looks at tasks that went as well with summaries: what in them was never used?
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from focusctx import __version__
from focusctx.baselines.method import dialogue_as_text
from focusctx.config import FocusConfig
from focusctx.errors import BenchError, ConfigError, DraftError
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from focusctx.types import Reply, Usage

from ..job import BenchFolder, Job
from ..record import Record
from .summary import START, Ask, read_guideline

RunJob: TypeAlias = Callable[[Job, BenchFolder], Awaitable[None]]
"""Does what a job's folder has no record of. Raises `Unfinished` if tasks are left."""
_log = logging.getLogger("focusctx")
_AT_ONCE = 8
_COMPARE = """\
An agent works on tasks step by step. To save room, a program now and then replaces its older steps by a memory, \
written by a guideline. You are shown the guideline and one task twice: a run with the whole history, which went \
better, and a run with memories, which went worse. Compare them. Say what the memories left out, blurred or got wrong \
that the first run shows to be needed, at which step this led the second run astray, and what the guideline should ask \
for so that this does not happen in any task of this kind. Be specific about kinds of information, not about this one \
task."""
_USED = """\
An agent works on tasks step by step. To save room, a program now and then replaces its older steps by a memory, \
written by a guideline. You are shown the guideline and a run with memories that succeeded. Say which parts of the \
memories the agent's later steps really used, which it never used, and what the guideline could do without, or ask for \
in fewer words, in any task of this kind. Do not give up what the agent used."""
_REWRITE = """\
You improve the guideline by which a program writes the memory of an agent: what to keep of older steps, and in which \
form. You are shown the guideline and feedback on several runs. Write the guideline anew so that it follows what the \
feedback has in common. {aim} It must serve every task in this environment: no facts of single tasks. Keep its \
headings unless the feedback asks otherwise. Answer with the whole new guideline, between <guideline> and \
</guideline>."""


class Unfinished(BenchError):
    """Training tasks are left: the spending limit was reached, or tasks failed."""


async def make_guidelines(job: Job, optimiser: str, ask: Ask, folder: Path, run: RunJob) -> tuple[Path, Path]:
    """Make both guidelines, and return their files.

    `job` names the training tasks, the agent and the compressor; its methods are set here.
    """
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
        _keep(ut, await improve(ask, read_guideline(start), pairs), job, optimiser, [full for full, _ in pairs])
    after = await _trained(replace(job, methods=("acon-ut",)), ut, folder / "ut", run)
    utco = folder / "utco.md"
    if not utco.exists():
        runs = successes(_of(before, "none"), _of(after, "acon-ut"))
        if not runs:
            raise BenchError(f"no training task went well with a summary under {ut}: there is nothing to shorten by")
        _keep(utco, await shorten(ask, read_guideline(ut), runs), job, optimiser, runs)
    return ut, utco


def cost_of(folder: Path) -> float | None:
    """Return the USD that the folder has cost so far, training runs and optimiser; None if some model has no price."""
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


def _keep(path: Path, made: Optimised, job: Job, optimiser: str, learnt_from: Sequence[Record]) -> None:
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


@dataclass(frozen=True, slots=True)
class Optimised:
    guideline: str
    feedback: tuple[str, ...]
    usage: Usage


def contrasts(full: Iterable[Record], compressed: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Return both runs of each task that scored lower with summaries than with the full history."""
    better = {record.task: record for record in full}
    return [
        (better[record.task], record)
        for record in compressed
        if record.made and record.task in better and record.score.success < better[record.task].score.success
    ]


def successes(full: Iterable[Record], compressed: Iterable[Record]) -> list[Record]:
    """Return the runs with summaries that scored, and no lower than the full history."""
    wanted = {record.task: record.score.success for record in full}
    return [
        record
        for record in compressed
        if record.made and record.score.success > 0 and record.score.success >= wanted.get(record.task, 1.0)
    ]


def run_as_text(record: Record) -> str:
    """Render a run from its task to its end, with each memory where the agent first had it."""
    first_seen: dict[str, int] = {}
    for step in record.steps:
        for message in record.sent(step):
            if any(message is made for made in record.made):
                first_seen.setdefault(str(message.get("content")), step.reply)
    history = read_history(record.messages, FocusConfig(), Counter().count, format="chat_completions")
    pieces = [f"Task:\n{history.goal}"]
    for span in history.spans:
        place = history.owners.index(span.index)
        pieces += [f"The memory from here on:\n{text}" for text, reply in first_seen.items() if reply == place]
        pieces.append(dialogue_as_text(history, [span]))
    return "\n\n".join(pieces)


async def improve(ask: Ask, guideline: str, pairs: Sequence[tuple[Record, Record]]) -> Optimised:
    """Run the UT round."""
    runs = [
        f"The run with the whole history:\n{run_as_text(full)}\n\nThe run with memories:\n{run_as_text(compressed)}"
        for full, compressed in pairs
    ]
    return await _round(ask, guideline, runs, _COMPARE, "Nothing that the feedback found missing may get lost again.")


async def shorten(ask: Ask, guideline: str, runs: Sequence[Record]) -> Optimised:
    """Run the CO round."""
    aim = "Memories written by it must be shorter than before, without what the feedback found unused."
    return await _round(ask, guideline, [f"The run:\n{run_as_text(run)}" for run in runs], _USED, aim)


async def _round(ask: Ask, guideline: str, runs: Sequence[str], question: str, aim: str) -> Optimised:
    """Ask the question about every run, then for a guideline with this aim."""
    if not runs:
        raise ConfigError("there are no runs to learn from: pass at least one")
    told = f"The guideline:\n{guideline.strip()}"
    feedback = await _answers([(question, f"{told}\n\n{run}") for run in runs], ask)
    said = "\n\n".join(f"Feedback {number}:\n{reply.text}" for number, reply in enumerate(feedback, 1))
    written = await ask(_REWRITE.format(aim=aim), f"{told}\n\n{said}")
    found = re.search(r"<guideline>(.*)</guideline>", written.text, re.DOTALL)
    if not found or not found[1].strip():
        raise DraftError("the optimiser wrote no guideline between <guideline> and </guideline>")
    usage = sum((reply.usage for reply in (*feedback, written)), Usage())
    return Optimised(found[1].strip(), tuple(reply.text for reply in feedback), usage)


async def _answers(questions: Sequence[tuple[str, str]], ask: Ask) -> list[Reply]:
    """Return all answers, in order; raises an error only if there is none."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def answer(system: str, user: str) -> Reply | DraftError:
        async with room:
            try:
                return await ask(system, user)
            except DraftError as error:
                _log.warning("the optimiser gave no answer: %s", error)
                return error

    outcomes = await asyncio.gather(*(answer(*question) for question in questions))
    replies = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    if not replies:
        raise DraftError(f"the optimiser gave no answer at all: {outcomes[0]}")
    return replies
