"""Run a bench job: every task under every variant of a method that has no record yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from urllib.parse import quote
from uuid import uuid4

from focusctx.baselines.method import Factory
from focusctx.baselines.registry import method_from
from focusctx.errors import ConfigError, ModelError
from focusctx.jobs.engines import Engine, Meter, Outcome, Spending
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.proxy.access import SESSION
from focusctx.replay.job import probe_drafts

from .agent import Agent
from .baselines.registry import BenchSettings
from .benchmarks import benchmark_from, scripted_draft, scripted_model
from .job import SCRIPTED, Attempt, BenchFolder, Job, TaskItem, Variant
from .models.served import model_from
from .protocols import Benchmark, Model, Task
from .proxied import check_proxy, with_savings
from .record import Record, Step, repeated
from .relay import TASK
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


async def run_task(job_text: str, item: TaskItem, meter: Meter) -> list[Record]:
    """Let the agent do one task. Raises a `ModelError` where a model gave no answer: that is no result."""
    components = _components(job_text)
    job, run = components.job, uuid4().hex
    model = components.model(item.benchmark)
    if job.model:  # a relay is to know which task a request belongs to, and a proxy which run
        about = {TASK: quote(f"{item.benchmark} {item.task.id}", safe=" ")}
        model = model_from(job.model, seed=job.seed, headers={**about, SESSION: run} if job.through else about)
    agent = Agent(model, components.method(item.benchmark, item.variant), job.step_limit)
    with charging(meter.add):
        record = await agent.run(components.benchmark(item.benchmark), item.task, partial(_charge, meter))
    if record.ended == "model":
        raise ModelError(record.problem or "the model gave no answer")
    if job.through:
        record = await with_savings(record, job.through, run)
    return [record.made_by(item.variant.name, job.settings(item), item.repeat)]


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
    ended: str = outcome.records[0].ended if outcome and outcome.records else "failed" if outcome else "interrupted"
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


def method_of(benchmark: str, variant: Variant) -> Factory:
    """Return a factory for the variant's method. Raises for what is missing."""
    settings = BenchSettings(**variant.settings)
    if settings.draft == SCRIPTED:
        settings = replace(settings, draft=scripted_draft(benchmark))
    return method_from(variant.method, settings)


class Components:
    """The parts that a job names, made once in a process: benchmarks, models, a factory for each variant's method."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.benchmark = cache(self._benchmark)
        self.model = cache(self._model)
        self._methods: dict[tuple[str, str], Factory] = {}

    def tasks(self) -> dict[str, list[Task]]:
        """Return the tasks to run, by benchmark. Raises BenchError or ConfigError for what is missing."""
        found = {name: self.job.chosen(name, self.benchmark(name).tasks()) for name in self.job.benchmarks}
        known = {task.id for some in found.values() for task in some}
        if unknown := [task for task in self.job.tasks if task not in known]:
            raise ConfigError(f"no task {unknown[0]!r} in {', '.join(found)}; `focusctx bench tasks` lists them")
        return found

    def check(self) -> None:
        """Make everything, so that what is missing shows now and not in the middle of a run."""
        self.job.check()
        for name in self.job.benchmarks:
            self.model(name)
            for variant in self.job.variants(name):
                self.method(name, variant)

    def _benchmark(self, name: str) -> Benchmark:
        return benchmark_from(name, self.job.benchmarks[name])

    def _model(self, benchmark: str) -> Model:
        """Return the agent's model: the one that is named, or the benchmark's scripted agent."""
        return model_from(self.job.model, seed=self.job.seed) if self.job.model else scripted_model(benchmark)

    def method(self, benchmark: str, variant: Variant) -> Factory:
        key = benchmark, variant.name
        if key not in self._methods:
            self._methods[key] = method_of(benchmark, variant)
        return self._methods[key]
