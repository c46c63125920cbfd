"""`focusctx bench run` and `acon`: from options to a job and a finished table or guideline, with a clean stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from focusctx.baselines.embedders import default_embedder
from focusctx.cli.command import INCOMPLETE, Problem, check_positive, interruptible
from focusctx.cli.output import console_on, printable, progress
from focusctx.drafts.registry import draft_from
from focusctx.errors import ConfigError, MissingExtraError
from focusctx.jobs.engines import Engine, InProcess, engine_named
from focusctx.jobs.runner import Tally
from focusctx.prices import price_of

from ..baselines.acon import Unfinished, cost_of, make_guidelines
from ..baselines.registry import ALL, KNOWN
from ..baselines.summary import ask_from
from ..benchmarks import benchmark_names
from ..job import BenchFolder, Job
from ..protocols import Options
from ..run import Components, method_of, run_bench
from ..spending import check_prices, estimate
from .tables import print_estimate, print_tables

HAVE_OPTIONS = ("focus", "clear-tool-uses", "summary", "prompting", "acon-ut", "acon-utco")
"""Methods that `--set` can address; the controls of `focus` read its settings."""
_HOME = Path("focusctx-bench")
CONCURRENCY = 8
"""Tasks at once, where some model is waited for. Elsewhere one at a time is as fast, and its seconds are its own."""
TRAINING_SEED = 1042
"""Seed of training tasks where a benchmark has no splits: another one than that of its test tasks."""


def benchmarks_of(arguments: argparse.Namespace) -> dict[str, Options]:
    if not arguments.benchmark:
        raise Problem(f"name a benchmark: --benchmark {' | '.join(benchmark_names())}")
    return _with_options(arguments, dict.fromkeys(arguments.benchmark, Options()))


def _with_options(arguments: argparse.Namespace, benchmarks: Mapping[str, Options]) -> dict[str, Options]:
    """Return the benchmarks with what the options say about them."""
    found = dict(benchmarks)
    if arguments.seed is not None:
        found = {name: replace(options, seed=arguments.seed) for name, options in found.items()}
    for text in arguments.data:
        for name, path in _addressed(text, found, "="):
            found[name] = replace(found[name], data=Path(path).absolute())
    for text in arguments.split:
        for name, split in _addressed(text, found, "="):
            found[name] = replace(found[name], split=split)
    for text in arguments.set:
        if text.partition(".")[0] in HAVE_OPTIONS:
            continue
        for name, setting in _addressed(text, found, "."):
            key, equals, value = setting.partition("=")
            if not equals or not key:
                raise Problem(f"--set needs KEY=VALUE, such as domain=retail, got {setting!r}")
            found[name] = replace(found[name], more={**found[name].more, key: value})
    return found


def method_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings that `--set METHOD.KEY=VALUE` gives to methods, by method."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        method, _, setting = text.partition(".")
        if method not in HAVE_OPTIONS:
            continue
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise Problem(f"--set wants {method}.KEY=VALUE, got {text!r}")
        own = found.setdefault(method, {})
        try:
            own[key] = json.loads(value)
        except ValueError:
            own[key] = value  # a word: no quotes needed
    return found


def job_of(arguments: argparse.Namespace) -> tuple[Job, list[str]]:
    """Return the job, and why methods were left out of `all`."""
    usual = {"methods": ALL, "drafts": (arguments.model or "offline",), "embedder": default_embedder()}
    job = Job(benchmarks=benchmarks_of(arguments), **{**usual, **_given(arguments)})
    return _without_what_cannot_run(job) if "all" in (arguments.methods or ["all"]) else (job, [])


def job_with_changes(job: Job, arguments: argparse.Namespace) -> Job:
    """Return an existing job with what the options say otherwise."""
    changed = replace(job, benchmarks=_with_options(arguments, job.benchmarks), **_given(arguments))
    return _without_what_cannot_run(changed)[0] if "all" in (arguments.methods or []) else changed


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a job that the options name, and no others."""
    options = {
        "methods": _known(arguments.methods) if arguments.methods else None,
        "model": arguments.model,
        "drafts": arguments.draft,
        "budgets": arguments.budget,
        "rollouts": arguments.rollouts,
        "thresholds": arguments.threshold,
        "rollout_modes": arguments.rollout_mode,
        "repeats": arguments.repeats,
        "compressor": arguments.compressor,
        "embedder": arguments.embedder,
        "llmlingua_model": arguments.llmlingua_model,
        "guideline_ut": arguments.guideline_ut,
        "guideline_utco": arguments.guideline_utco,
        "count": arguments.tasks,
        "tasks": arguments.task,
        "seed": arguments.seed,
        "step_limit": arguments.step_limit,
        "method_options": method_options(arguments.set) or None,
        "through": arguments.through,
    }
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items() if value is not None
    }


def _known(methods: Sequence[str]) -> tuple[str, ...]:
    if "all" in methods:
        return ALL
    if unknown := [name for name in methods if name not in KNOWN]:
        raise Problem(f"unknown method {unknown[0]!r}; known: all, {', '.join(KNOWN)}")
    return tuple(dict.fromkeys(methods))


def _without_what_cannot_run(job: Job) -> tuple[Job, list[str]]:
    """Leave out methods that cannot run here: "all" means those that can."""
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
    """Return the benchmarks that a value is for: `NAME=VALUE` for one, a plain value for all."""
    name, found, value = text.partition(mark)
    if found and name in benchmarks:
        return [(name, value)]
    return [(name, text) for name in benchmarks]


def run_job(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "repeats")
    job, folder, left_out = _job_and_folder(arguments)
    components = Components(job)
    components.check()
    tasks = components.tasks()
    if arguments.estimate:
        print_estimate(console_on(sys.stdout), estimate(job, tasks, folder))
        return 0
    if (unknown := check_prices(job, arguments.max_cost)) and job.waits_for_models:
        sys.stderr.write(f"no price is known for {printable(', '.join(unknown))}: the cost shown will be too low\n")
    engine = _engine(arguments, job)
    for line in left_out:
        sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.write(f"records go to {printable(str(folder.path))}\n")
    tally = Tally()
    try:
        with interruptible(), progress(sys.stderr) as watch:
            local = arguments.engine == "local"
            work = run_bench(
                job, tasks, folder, engine, tally=tally, max_cost=arguments.max_cost, watch=watch, probe=local
            )
            asyncio.run(work)
    finally:
        engine.close()
        _report_problems(tally)
    print_tables(console_on(sys.stdout), folder.path)
    if tally.left:
        why = tally.stopped or "tasks failed"
        sys.stderr.write(f"stopped: {why}. {tally.left:,} tasks are left; run the same command again to continue\n")
    return INCOMPLETE if tally.left else 0


def _job_and_folder(arguments: argparse.Namespace) -> tuple[Job, BenchFolder, list[str]]:
    if not arguments.benchmark and arguments.out and BenchFolder(arguments.out).has_job:
        folder = BenchFolder(arguments.out)
        return job_with_changes(folder.job(), arguments), folder, []  # the folder refuses differences
    job, left_out = job_of(arguments)
    name = f"{'-'.join(job.benchmarks)}-{job.digest}"
    return job, BenchFolder(arguments.out or _HOME / name), left_out


def _engine(arguments: argparse.Namespace, job: Job) -> Engine:
    if arguments.engine != "local":
        return engine_named(arguments.engine, arguments.concurrency)
    return InProcess(arguments.concurrency or (CONCURRENCY if job.waits_for_models else 1))


def _report_problems(tally: Tally) -> None:
    say = sys.stderr.write
    if tally.last_problem:
        say(f"the last error: {printable(tally.last_problem)}\n")
    if tally.failures:
        say(f"{tally.failures:,} tasks failed for reasons outside the agent; attempts.jsonl lists them\n")


def make_acon(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "budget")
    compressor = arguments.compressor or arguments.model
    if compressor is None:
        raise Problem("name who writes the summaries: --compressor, or --model for all")
    job, optimiser = _training_job(arguments, compressor), arguments.optimiser or compressor
    _check_price(optimiser, arguments.max_cost)
    ask = ask_from(optimiser, temperature=1.0, max_tokens=8192, deadline=600)
    run = _TrainingRuns(arguments)
    try:
        with interruptible():
            made = asyncio.run(make_guidelines(job, optimiser, ask, arguments.out, run))
    except Unfinished as error:
        sys.stderr.write(f"stopped: {error}; the same command goes on\n")
        return INCOMPLETE
    cost = cost_of(arguments.out)
    sys.stdout.write(f"{made.ut}\n{made.utco}\n")
    sys.stderr.write("the cost is not known: some model has no price\n" if cost is None else f"cost: ${cost:,.2f}\n")
    return 0


def _training_job(arguments: argparse.Namespace, compressor: str) -> Job:
    from ..job import Job

    benchmarks = benchmarks_of(arguments)
    if len(benchmarks) != 1:
        raise Problem("a guideline is for one benchmark: name one with --benchmark")
    ((name, options),) = benchmarks.items()
    if name == "office":
        seed = TRAINING_SEED if arguments.seed is None else arguments.seed
        options = replace(options, seed=seed)
    elif options.split in ("", "test", "test_normal"):
        if options.split:
            raise Problem(f"guidelines are made from training tasks, not from {options.split!r}: use --split train")
        options = replace(options, split="train")
    return Job(
        benchmarks={name: options},
        methods=("none",),
        model=arguments.model,
        drafts=(compressor,),
        compressor=compressor,
        budgets=(arguments.budget,) if arguments.budget else (),
        count=arguments.tasks,
        step_limit=arguments.step_limit,
        method_options=method_options(arguments.set),
        seed=options.seed if name == "office" else (42 if arguments.seed is None else arguments.seed),
    )


def _check_price(optimiser: str, max_cost: float | None) -> None:
    if max_cost is not None and price_of(draft_from(optimiser).name) is None:
        raise Problem(f"the spending limit cannot be kept: no price is known for {optimiser}; see FOCUSCTX_PRICES")


class _TrainingRuns:
    """Does the training runs, within what is left of the spending limit."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._out: Path = arguments.out
        self._concurrency: int = arguments.concurrency
        self._max_cost: float | None = arguments.max_cost

    async def __call__(self, job: Job, folder: BenchFolder) -> None:
        components = Components(job)
        components.check()
        with progress(sys.stderr) as watch:
            tally = await run_bench(
                job,
                components.tasks(),
                folder,
                InProcess(self._concurrency),
                max_cost=self._limit_for(folder),
                watch=watch,
            )
        if tally.left:
            raise Unfinished(f"{tally.stopped or 'tasks failed'}, {tally.left:,} training tasks are left")

    def _limit_for(self, folder: BenchFolder) -> float | None:
        """Return the limit of one run: what the other stages have not used up."""
        if self._max_cost is None:
            return None
        own = folder.spent() if folder.path.is_dir() else 0.0
        return max(1e-9, self._max_cost - (cost_of(self._out) or 0.0) + own)
