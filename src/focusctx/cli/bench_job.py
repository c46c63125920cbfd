"""From the options of `focusctx bench` to a job."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..baselines.registry import ALL
from ..bench.benchmarks.registry import benchmark_names
from ..bench.job import Job
from ..bench.seams import Options
from ..bench.workshop import method_of
from ..errors import ConfigError, MissingExtraError
from .problem import Problem


def benchmarks_of(arguments: argparse.Namespace) -> dict[str, Options]:
    if not arguments.benchmark:
        raise Problem(f"name a benchmark: --benchmark {' | '.join(benchmark_names())}")
    found = {name: Options(seed=arguments.seed) for name in arguments.benchmark}
    for text in arguments.data:
        for name, path in _addressed(text, found, "="):
            found[name] = replace(found[name], data=Path(path).absolute())
    for text in arguments.split:
        for name, split in _addressed(text, found, "="):
            found[name] = replace(found[name], split=split)
    for text in arguments.set:
        for name, setting in _addressed(text, found, "."):
            key, equals, value = setting.partition("=")
            if not equals or not key:
                raise Problem(f"--set wants KEY=VALUE, got {setting!r}")
            found[name] = replace(found[name], more={**found[name].more, key: value})
    return found


def job_of(arguments: argparse.Namespace) -> tuple[Job, list[str]]:
    """The job, and why methods were left out of `all`."""
    drafts = tuple(arguments.draft or [arguments.model or "offline"])
    given = {"llmlingua_model": arguments.llmlingua_model} if arguments.llmlingua_model else {}
    job = Job(
        benchmarks=benchmarks_of(arguments),
        methods=_known(arguments.methods),
        model=arguments.model,
        drafts=drafts,
        budgets=tuple(arguments.budget or ()),
        rollouts=tuple(arguments.rollouts),
        threshold=arguments.threshold,
        compressor=arguments.compressor,
        embedder=arguments.embedder,
        guideline_ut=arguments.guideline_ut,
        guideline_utco=arguments.guideline_utco,
        count=arguments.tasks,
        tasks=tuple(arguments.task),
        seed=arguments.seed,
        step_limit=arguments.step_limit,
        **given,
    )
    return _without_what_cannot_run(job) if "all" in arguments.methods else (job, [])


def _known(methods: Sequence[str]) -> tuple[str, ...]:
    if "all" in methods:
        return ALL
    if unknown := [name for name in methods if name not in ALL]:
        raise Problem(f"unknown method {unknown[0]!r}; known: all, {', '.join(ALL)}")
    return tuple(dict.fromkeys(methods))


def _without_what_cannot_run(job: Job) -> tuple[Job, list[str]]:
    """Whoever asks for all methods wants those that can run here."""
    left_out: dict[str, str] = {}
    for name in job.benchmarks:
        for variant in job.variants(name):
            try:
                method_of(name, variant)
            except (ConfigError, MissingExtraError) as error:
                left_out[variant.method] = str(error).partition("\n")[0]
    methods = tuple(method for method in job.methods if method not in left_out)
    return replace(job, methods=methods), [f"{method} is left out: {why}" for method, why in left_out.items()]


def _addressed(text: str, benchmarks: dict[str, Options], mark: str) -> list[tuple[str, str]]:
    """`NAME=VALUE` is for that benchmark, a plain value for all."""
    name, found, value = text.partition(mark)
    if found and name in benchmarks:
        return [(name, value)]
    return [(name, text) for name in benchmarks]
