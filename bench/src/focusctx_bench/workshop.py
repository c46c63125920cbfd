"""From a job to what does it: the benchmark, the model, the method of each variant; each made once in a process."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from focusctx.baselines.method import Factory
from focusctx.baselines.registry import method_from
from focusctx.errors import ConfigError, FocusError, MissingExtraError

from .agent import Agent
from .benchmarks.registry import benchmark_from, scripted_draft, scripted_model
from .job import SCRIPTED, Job, Unit, Variant
from .models.registry import model_from
from .record import Record, Step
from .seams import Benchmark, Model, Task


class Attempt(NamedTuple):
    """A record, or why there is none: something other than the agent and its method failed."""

    record: Record | None
    problem: str = ""
    trace: str | None = None
    """Where it happened, if nobody foresaw it."""


def method_of(benchmark: str, variant: Variant) -> Factory:
    """What makes the variant's method for every task. Raises for what is missing."""
    settings = variant.method_settings()
    if settings.draft == SCRIPTED:
        settings = replace(settings, draft=scripted_draft(benchmark))
    return method_from(variant.method, settings)


class Workshop:
    def __init__(self, job: Job) -> None:
        self.job = job
        self._benchmarks: dict[str, Benchmark] = {}
        self._models: dict[str, Model] = {}
        self._methods: dict[tuple[str, str], Factory] = {}

    def tasks(self) -> dict[str, list[Task]]:
        """Of every benchmark, those to run. Raises BenchError or ConfigError for what is missing."""
        found = {name: self.job.chosen(name, self._benchmark(name).tasks()) for name in self.job.benchmarks}
        known = {task.id for some in found.values() for task in some}
        if unknown := [task for task in self.job.tasks if task not in known]:
            raise ConfigError(f"no task {unknown[0]!r} in {', '.join(found)}; `focusctx bench tasks` lists them")
        return found

    def check(self) -> None:
        """Make all there is to make: what is missing shows now, not in the middle of a run."""
        self.job.check()
        for name in self.job.benchmarks:
            self._model(name)
            for variant in self.job.variants(name):
                self._method(name, variant)

    async def attempt(self, unit: Unit, watch: Callable[[Step], None]) -> Attempt:
        """One task from beginning to end. What a program or a user has to put right is raised."""
        benchmark = self._benchmark(unit.benchmark)
        agent = Agent(self._model(unit.benchmark), self._method(unit.benchmark, unit.variant), self.job.step_limit)
        try:
            record = await agent.run(benchmark, unit.task, watch)
        except (ConfigError, MissingExtraError):
            raise
        except FocusError as error:
            return Attempt(None, str(error))
        except Exception as error:
            return Attempt(None, f"{type(error).__name__}: {error}", traceback.format_exc())
        if record.ended == "model":
            return Attempt(None, record.problem or "the model gave no answer")
        return Attempt(record.with_settings(self.job.settings(unit)))

    def _benchmark(self, name: str) -> Benchmark:
        if name not in self._benchmarks:
            self._benchmarks[name] = benchmark_from(name, self.job.benchmarks[name])
        return self._benchmarks[name]

    def _model(self, benchmark: str) -> Model:
        """One for all benchmarks, or each benchmark's scripted agent."""
        key = self.job.model or f"scripted {benchmark}"
        if key not in self._models:
            named = self.job.model
            self._models[key] = model_from(named, seed=self.job.seed) if named else scripted_model(benchmark)
        return self._models[key]

    def _method(self, benchmark: str, variant: Variant) -> Factory:
        key = benchmark, variant.folder
        if key not in self._methods:
            self._methods[key] = method_of(benchmark, variant)
        return self._methods[key]
