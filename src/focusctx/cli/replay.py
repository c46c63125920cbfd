"""`focusctx replay`: compress recorded runs as they would have been, and compare with what happened next.

`run` walks through them step by step, under every method. The other subcommands come with `focusctx-bench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..wire.foreign import UNDERSTOOD
from .command import (
    INCOMPLETE,
    Problem,
    add_quiet,
    add_research,
    check_positive,
    commands_of,
    interruptible,
    note,
    parser_for,
)
from .options import DRAFTS, EMBEDDERS, METHODS, add_threshold

if TYPE_CHECKING:
    from ..replay.job import ReplayTally
    from ..replay.methods import ReplaySettings
    from ..replay.record import ReplayFolder
    from ..replay.runs import Run
    from .command import Commands

DATA = f"""\
DATA is a JSONL file, or a folder of such files: each line a list of messages,
or an object with such a list as its "messages" and, if it has one, an "id".
The folder of a `focusctx bench run`, or its records, will do as well.
Recognised: {UNDERSTOOD}.
"""

CHAT_ONLY = "Only none and the FOCUS methods read every format; the others need OpenAI chat.\n"

REPLAY_METHODS = f"""\
{METHODS}  focus                        FOCUS as it is shipped
"""

USUAL_METHODS = ("none", "fifo", "retrieval", "masking-10", "masking-5", "masking-3", "focus-d", "focus")
_DESCRIPTION = """\
Replay recorded runs: what would each method have kept of the past, and did the
future need what it dropped? Takes any JSONL of message lists, such as your own
logs.

with no key, no model and no download:
  focusctx replay run my-logs.jsonl --draft offline
"""
_RUN = f"""\
Walk through recorded runs step by step under compression methods, and measure
how much of what each action needed was still in the messages it would have
been sent. Prints a table and writes records, from which `focusctx replay
report` makes pages and pictures (with focusctx-bench).

{DATA}{CHAT_ONLY}
It can be stopped at any time: run the same command again to continue. More
methods, drafts and settings can be added to the same folder.
"""


def add_to(commands: Commands) -> None:
    summary = "what compression would have kept of your recorded runs, and what they needed"
    parts = commands_of(parser_for(commands, "replay", summary, _DESCRIPTION))
    _add_run(parts)
    add_research(parts, "replay")


def _add_run(parts: Commands) -> None:
    epilog = f"{REPLAY_METHODS}\n{DRAFTS}"
    parser = parser_for(parts, "run", "walk through recorded runs under methods", _RUN, epilog)
    add_data(parser)
    what = add_methods(parser, USUAL_METHODS, "offline")
    what.add_argument(
        "--model",
        help="the model at whose prices the agent's calls are counted (default: the log's own, else gpt-4.1)",
    )
    add_running(parser)
    add_quiet(parser, "the tables and the recommendation only")
    parser.set_defaults(run=run, model=None)


def run(arguments: argparse.Namespace) -> int:
    from ..replay.advice import model_of
    from ..replay.job import Plan
    from ..replay.record import run_records
    from ..replay.walk import walk_all
    from .output import console_on, progress
    from .replay_table import print_advice, print_walks

    arguments.draft = arguments.draft or "offline"
    runs = runs_of(arguments)
    arguments.model = arguments.model or model_of(runs) or "gpt-4.1"
    settings = settings_of(arguments, runs)
    settings.check()
    plan = Plan(settings, runs, budgets_of(arguments, runs), arguments.engine, arguments.jobs)
    folder = folder_of(arguments)
    with interruptible(), folder.locked(), progress(sys.stderr, quiet=arguments.quiet) as watch:
        folder.begin(runs, sys.argv[1:])
        records = run_records(folder.path)
        tally = walk_all(plan, records, watch)
    console, walked = console_on(sys.stdout), list(records.latest().values())
    print_walks(console, walked, arguments.model)
    print_advice(console, runs, walked, plan.budgets, arguments.model)
    return finish(arguments, folder, tally)


def finish(arguments: argparse.Namespace, folder: ReplayFolder, tally: ReplayTally) -> int:
    """Return the exit code, and print on standard error what is left to do."""
    from .output import printable

    say = sys.stderr.write
    note(arguments, f"`focusctx replay report {printable(str(folder.path))}` makes pages and pictures of the records")
    if tally.failures:
        say(f"{tally.failures} runs could not be replayed; the last error: {printable(tally.last_problem)}\n")
    if tally.events_failed:
        say(f"warning: {tally.events_failed:,} of {tally.events:,} events failed: {printable(tally.why)}\n")
    if tally.unanswered:
        say(f"a model gave no answer at {tally.unanswered:,} events; run the same command again to retry\n")
    return INCOMPLETE if tally.failures or tally.unanswered else 0


def add_data(parser: argparse.ArgumentParser, *, budget: bool = True) -> None:
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="recorded runs, see above")
    add = parser.add_argument_group("which runs").add_argument
    add("--limit", type=int, metavar="N", help="only the first N runs of each file")
    add(
        "--half",
        choices=("tuning", "reporting"),
        help="only the runs of one half, by a hash of their ids: choose settings on one, publish figures of the other",
    )
    if budget:
        add(
            "--budget",
            type=_budget,
            metavar="TOKENS",
            help="δ: compress above this many tokens (default: auto: 4096, or 1024 for a file of short dialogues)",
        )


def add_methods(parser: argparse.ArgumentParser, methods: tuple[str, ...], draft: str) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("what to compare")
    add = group.add_argument
    add("--methods", nargs="+", metavar="NAME", help=f"see below (default: {' '.join(methods)})")
    parser.set_defaults(usual_methods=methods, model="gpt-4.1")
    add("--draft", help=f"the model that sketches plans, see below (default: {draft})")
    add("--rollouts", type=int, metavar="N", default=3, help="sketches per event (default: 3)")
    add_threshold(group)
    add(
        "--target",
        type=float,
        metavar="SIZE",
        help="of `focus`, the size after an event: a share of the budget up to 1, or a number of tokens "
        "(default: 0.5; 0: whatever the sketches ask for)",
    )
    add("--whole-steps", action="store_true", help="let `focus` keep or drop whole steps, as the paper does")
    add(
        "--set",
        nargs="+",
        metavar="KEY=VALUE",
        default=[],
        help="other settings of `focus` that differ from the shipped ones, such as defensive=false",
    )
    add("--compressor", metavar="DRAFT", help="the model that writes the summaries of prompting (default: the draft)")
    add("--embedder", help=EMBEDDERS)
    add("--no-matched", action="store_true", help="leave out the methods that get as many tokens as FOCUS kept")
    return group


def add_running(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how to run").add_argument
    add("--out", type=Path, metavar="FOLDER", help="folder for records (default: one per data set in focusctx-replay)")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="processes (default: one per core), or, if a model is asked, runs at a time (default: 64)",
    )
    add("--engine", choices=("local", "ray"), default="local", help="ray: on a Ray cluster, with focusctx-bench[ray]")
    add(
        "--deadline",
        type=float,
        metavar="SECONDS",
        default=600.0,
        help="time limit for the sketches of an event (default: 600)",
    )


def runs_of(arguments: argparse.Namespace) -> list[Run]:
    from ..replay.runs import half_of, read_runs

    check_positive(arguments, "limit", "jobs", "rollouts", "deadline")
    every = read_runs(arguments.data, arguments.limit)
    runs = [run for run in every if arguments.half in (None, half_of(run.id))]
    if arguments.half:
        note(arguments, f"{arguments.half} half: {len(runs)} of {len(every)} runs")
    if not any(run.messages for run in runs):
        raise Problem(f"found no runs in {' '.join(map(str, arguments.data))}; give JSONL files of message lists")
    return runs


def budgets_of(arguments: argparse.Namespace, runs: list[Run]) -> dict[str, int]:
    """Return δ for each file, and print it if it was chosen here."""
    from ..replay.runs import budgets_for
    from .output import printable

    budgets = budgets_for(runs, arguments.budget)
    if arguments.budget is None:
        chosen = ", ".join(f"{printable(file)} {budget}" for file, budget in budgets.items())
        note(arguments, f"budget δ, chosen by the length of the runs: {chosen}")
    return budgets


def settings_of(arguments: argparse.Namespace, runs: list[Run]) -> ReplaySettings:
    """Return the settings that the options describe."""
    from ..replay.methods import ReplaySettings

    return ReplaySettings(**settings_fields(arguments, runs))


def settings_fields(arguments: argparse.Namespace, runs: list[Run]) -> dict[str, Any]:
    """Return the fields of `ReplaySettings`. Runs of another format than chat have fewer methods by default."""
    from ..baselines.embedders import default_embedder
    from ..replay.methods import ANY_FORMAT

    usual = arguments.usual_methods
    if not all(run.format == "chat_completions" for run in runs):
        usual = ANY_FORMAT
    return {
        "methods": tuple(dict.fromkeys(arguments.methods or usual)),
        "draft": arguments.draft,
        "rollouts": arguments.rollouts,
        "threshold": arguments.threshold,
        "changes": (*_levels(arguments), *map(_setting, arguments.set)),
        "compressor": arguments.compressor,
        "embedder": arguments.embedder or default_embedder(),
        "deadline": arguments.deadline,
        "model": arguments.model,
        "matched": not arguments.no_matched,
    }


def folder_of(arguments: argparse.Namespace) -> ReplayFolder:
    """Return the folder that records go to, the same for the same data, and say which it is."""
    from ..replay.record import ReplayFolder
    from .output import printable

    names = "-".join(dict.fromkeys(path.resolve().name.removesuffix(".jsonl") for path in arguments.data))
    name = f"{names[:100]}-{arguments.half}" if arguments.half else names[:100]
    folder = ReplayFolder(arguments.out or Path("focusctx-replay") / name)
    note(arguments, f"records go to {printable(str(folder.path))}")
    return folder


def _budget(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of tokens nor auto")
    return number


def _levels(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the settings of `focus` that have options of their own."""
    if arguments.target is not None:
        yield "target", arguments.target or None
    if arguments.whole_steps:
        yield "levels", False


def _setting(text: str) -> tuple[str, Any]:
    """Parse a setting such as `target=0.45`; a value that is not JSON is a word."""
    name, equals, value = text.partition("=")
    if not equals:
        raise Problem(f"--set needs KEY=VALUE, such as target=0.5, got {text!r}")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, tuple(parsed) if isinstance(parsed, list) else parsed
