"""The work of `focusctx bench run`, `report`, `tasks`, `acon` and `live`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from focusctx.baselines.embedders import default_embedder
from focusctx.cli.command import INCOMPLETE, Problem, check_positive, interruptible
from focusctx.cli.output import console_on, printable, progress
from focusctx.drafts.registry import draft_from
from focusctx.errors import ConfigError, MissingExtraError
from focusctx.jobs.engines import InProcess, engine_named
from focusctx.jobs.runner import Tally
from focusctx.prices import price_of

from ..baselines.acon import Unfinished, cost_of, make_guidelines
from ..baselines.registry import ALL, KNOWN
from ..baselines.summary import ask_from
from ..benchmarks import NAMES, benchmark_from
from ..job import BenchFolder, Job
from ..live import read_arms, write
from ..protocols import Options
from ..results.document import document
from ..run import Components, method_of, run_bench
from ..spending import check_prices, estimate
from .points import say_written, write_asked
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
        raise Problem(f"name a benchmark: --benchmark {' | '.join(NAMES)}")
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
            key, value = _setting(setting, text)
            found[name] = replace(found[name], more={**found[name].more, key: value})
    return found


def method_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings that `--set METHOD.KEY=VALUE` gives to methods, by method."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        method, _, setting = text.partition(".")
        if method in HAVE_OPTIONS:
            key, value = _setting(setting, text)
            try:
                found.setdefault(method, {})[key] = json.loads(value)
            except ValueError:
                found[method][key] = value  # a word: no quotes needed
    return found


def _setting(setting: str, text: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise Problem(f"--set needs KEY=VALUE, such as domain=retail or focus.rollouts=5, got {text!r}")
    return key, value


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
    methods: Sequence[str] = tuple(dict.fromkeys(arguments.methods or ()))
    if "all" in methods:
        methods = ALL
    elif unknown := [name for name in methods if name not in KNOWN]:
        raise Problem(f"unknown method {unknown[0]!r}; known: all, {', '.join(KNOWN)}")
    options = {field.name: getattr(arguments, field.name, None) for field in fields(Job)}
    options |= {"methods": methods or None, "method_options": method_options(arguments.set) or None}
    options |= {"count": arguments.tasks, "tasks": arguments.task}
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items() if value is not None
    }


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


def run(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "repeats")
    left_out: list[str] = []
    if not arguments.benchmark and arguments.out and BenchFolder(arguments.out).has_job:
        folder = BenchFolder(arguments.out)
        job = job_with_changes(folder.job(), arguments)  # the folder refuses differences
    else:
        job, left_out = job_of(arguments)
        folder = BenchFolder(arguments.out or _HOME / f"{'-'.join(job.benchmarks)}-{job.digest}")
    components = Components(job)
    components.check()
    tasks = components.tasks()
    if arguments.estimate:
        print_estimate(console_on(sys.stdout), estimate(job, tasks, folder))
        return 0
    say = sys.stderr.write
    if (unknown := check_prices(job, arguments.max_cost)) and job.waits_for_models:
        say(f"no price is known for {printable(', '.join(unknown))}: the cost shown will be too low\n")
    local = arguments.engine == "local"
    at_once = arguments.concurrency or (CONCURRENCY if job.waits_for_models else 1)
    engine = InProcess(at_once) if local else engine_named(arguments.engine, arguments.concurrency)
    for line in left_out:
        say(f"{printable(line)}\n")
    say(f"records go to {printable(str(folder.path))}\n")
    tally, limit = Tally(), arguments.max_cost
    try:
        with interruptible(), progress(sys.stderr) as watch:
            asyncio.run(run_bench(job, tasks, folder, engine, tally=tally, max_cost=limit, watch=watch, probe=local))
    finally:
        engine.close()
        if tally.last_problem:
            say(f"the last error: {printable(tally.last_problem)}\n")
        if tally.failures:
            say(f"{tally.failures:,} tasks failed for reasons outside the agent; attempts.jsonl lists them\n")
    print_tables(console_on(sys.stdout), folder.path)
    if tally.left:
        why = tally.stopped or "tasks failed"
        say(f"stopped: {why}. {tally.left:,} tasks are left; run the same command again to continue\n")
    return INCOMPLETE if tally.left else 0


def report(arguments: argparse.Namespace) -> int:
    return write_asked(arguments, document(arguments.folder))


def tasks(arguments: argparse.Namespace) -> int:
    for name, options in benchmarks_of(arguments).items():
        for task in benchmark_from(name, options).tasks():
            sys.stdout.write("\t".join(map(printable, (name, task.id, task.difficulty))) + "\n")
    return 0


def live(arguments: argparse.Namespace) -> int:
    return say_written(write(read_arms(arguments.folders), arguments.out, arguments.reference))


def acon(arguments: argparse.Namespace) -> int:
    check_positive(arguments, "concurrency", "max_cost", "tasks", "step_limit", "budget")
    compressor = arguments.compressor or arguments.model
    if compressor is None:
        raise Problem("name who writes the summaries: --compressor, or --model for all")
    job, optimiser = _training_job(arguments, compressor), arguments.optimiser or compressor
    limit: float | None = arguments.max_cost
    if limit is not None and price_of(draft_from(optimiser).name) is None:
        raise Problem(f"the spending limit cannot be kept: no price is known for {optimiser}; see FOCUSCTX_PRICES")

    async def train(job: Job, folder: BenchFolder) -> None:
        """Do the training runs of one stage, within what the other stages have left of the spending limit."""
        components = Components(job)
        components.check()
        left = limit
        if left is not None:
            own = folder.spent() if folder.path.is_dir() else 0.0
            left = max(1e-9, left - (cost_of(arguments.out) or 0.0) + own)
        with progress(sys.stderr) as watch:
            engine = InProcess(arguments.concurrency)
            tally = await run_bench(job, components.tasks(), folder, engine, max_cost=left, watch=watch)
        if tally.left:
            raise Unfinished(f"{tally.stopped or 'tasks failed'}, {tally.left:,} training tasks are left")

    ask = ask_from(optimiser, temperature=1.0, max_tokens=8192, deadline=600)
    try:
        with interruptible():
            made = asyncio.run(make_guidelines(job, optimiser, ask, arguments.out, train))
    except Unfinished as error:
        sys.stderr.write(f"stopped: {error}; the same command goes on\n")
        return INCOMPLETE
    sys.stdout.write("".join(f"{path}\n" for path in made))
    cost = cost_of(arguments.out)
    sys.stderr.write("the cost is not known: some model has no price\n" if cost is None else f"cost: ${cost:,.2f}\n")
    return 0


def _training_job(arguments: argparse.Namespace, compressor: str) -> Job:
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
