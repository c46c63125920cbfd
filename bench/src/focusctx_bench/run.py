"""Run a bench job: every task under every variant of a method that has no record yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from uuid import uuid4

from focusctx.errors import ModelError
from focusctx.jobs.engines import Engine, Meter, Outcome, Spending
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.replay.job import probe_drafts

from .agent import Agent
from .components import Components
from .folder import Attempt, BenchFolder
from .job import Job, TaskItem
from .protocols import Task
from .proxied import check_proxy, with_savings
from .record import Record, Step, repeated
from .spending import charging, check_prices

WAITS = (2.0, 20.0)
"""Seconds before a task is tried again that failed for no fault of the agent or its method."""

PATIENCE = 10
"""Failed tasks in a row after which the run stops."""


async def run_bench(
    job: Job,
    tasks: Mapping[str, Sequence[Task]],
    folder: BenchFolder,
    engine: Engine,
    *,
    tally: Tally | None = None,
    max_cost: float | None = None,
    watch: Watch = lambda _: None,
    waits: Sequence[float] = WAITS,
    probe: bool = True,
) -> Tally:
    """Do what the folder has no record of. Raises what a user has to fix.

    `probe` asks each draft one small question first, and the proxy for its sessions; on a cluster, workers may reach
    other servers.
    """
    tally = tally or Tally()
    with folder.locked():
        folder.begin(job, tasks)
        done = {record.key for record in folder.records}
        items = list(job.items(tasks))
        tally.spending = Spending(max_cost, folder.spent())
        tally.spending.unpriced = bool(check_prices(job, max_cost))
        if probe:
            await probe_drafts(name for item in items if item.key not in done for name in item.variant.models)
            if job.through:
                await check_proxy(job.through)
        runner = Runner(
            engine,
            partial(run_task, json.dumps(job.to_json())),
            lambda records: folder.records.add(*records),
            part=lambda item: item.benchmark,
            is_done=lambda item: item.key in done,
            tally=tally,
            watch=watch,
            note=partial(_note, folder),
            waits=waits,
            patience=PATIENCE,
        )
        return await runner.run(items)


async def run_task(job: str, item: TaskItem, meter: Meter) -> list[Record]:
    """Let the agent do one task. Raises a `ModelError` where a model gave no answer: that is no result."""
    components = _components(job)
    through, run = components.job.through, uuid4().hex
    model = components.model_of_run(run) if through else components.model(item.benchmark)
    agent = Agent(model, components.method(item.benchmark, item.variant), components.job.step_limit)
    with charging(meter.add):
        record = await agent.run(components.benchmark(item.benchmark), item.task, partial(_charge, meter))
    if record.ended == "model":
        raise ModelError(record.problem or "the model gave no answer")
    if through:
        record = await with_savings(record, through, run)
    return [record.made_by(item.variant.name, components.job.settings(item), item.repeat)]


@cache
def _components(job: str) -> Components:
    """Return the components of this process."""
    return Components(Job.from_json(json.loads(job)))


def _charge(meter: Meter, step: Step) -> None:
    """Count the cost of a step, with the provider's cache prices where they are known."""
    meter.add(step.usage.cost if step.billed is None else step.billed, "the agent's model")
    if step.event is not None:
        meter.add(step.event.usage.cost, "the model that the method asks")


def _note(
    folder: BenchFolder, item: TaskItem, outcome: Outcome[Record] | None, seconds: float, cost: float | None
) -> None:
    ended: str = "interrupted" if outcome is None else "failed"
    if outcome is not None and outcome.records:
        ended = outcome.records[0].ended
    folder.attempts.add(
        Attempt(
            benchmark=item.benchmark,
            variant=item.variant.name,
            task=repeated(item.task.id, item.repeat),
            ended=ended,
            seconds=round(seconds, 3),
            cost=cost,
            problem=outcome.problem if outcome else "",
            trace=outcome.trace if outcome else "",
        )
    )
