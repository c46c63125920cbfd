"""The parts that a job names, made once in a process: benchmarks, models, and a factory for each variant's method."""

from __future__ import annotations

from dataclasses import replace

from focusctx.baselines.method import Factory
from focusctx.baselines.registry import method_from
from focusctx.errors import ConfigError

from .benchmarks.registry import benchmark_from, scripted_draft, scripted_model
from .job import SCRIPTED, Job, Variant
from .models.registry import model_from
from .protocols import Benchmark, Model, Task
from .proxied import headers_of


def method_of(benchmark: str, variant: Variant) -> Factory:
    """Return a factory for the variant's method. Raises for what is missing."""
    settings = variant.method_settings()
    if settings.draft == SCRIPTED:
        settings = replace(settings, draft=scripted_draft(benchmark))
    return method_from(variant.method, settings)


class Components:
    def __init__(self, job: Job) -> None:
        self.job = job
        self._benchmarks: dict[str, Benchmark] = {}
        self._models: dict[str, Model] = {}
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

    def benchmark(self, name: str) -> Benchmark:
        if name not in self._benchmarks:
            self._benchmarks[name] = benchmark_from(name, self.job.benchmarks[name])
        return self._benchmarks[name]

    def model(self, benchmark: str) -> Model:
        """Return the agent's model: one for all benchmarks, or each benchmark's scripted agent."""
        key = self.job.model or f"scripted {benchmark}"
        if key not in self._models:
            named = self.job.model
            self._models[key] = model_from(named, seed=self.job.seed) if named else scripted_model(benchmark)
        return self._models[key]

    def model_of_run(self, run: str) -> Model:
        """Return the agent's model for one run that goes through the job's proxy."""
        assert self.job.model is not None, "checked before the run"
        return model_from(self.job.model, seed=self.job.seed, headers=headers_of(run))

    def method(self, benchmark: str, variant: Variant) -> Factory:
        key = benchmark, variant.name
        if key not in self._methods:
            self._methods[key] = method_of(benchmark, variant)
        return self._methods[key]
