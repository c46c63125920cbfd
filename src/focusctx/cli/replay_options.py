"""Options that the subcommands of `focusctx replay` share, and the objects they describe."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import EMBEDDERS, METHODS, add_threshold
from .problem import Problem, check_positive

if TYPE_CHECKING:
    from ..replay.methods import Setup
    from ..replay.runner import Plan
    from ..replay.runs import Run
    from ..replay.sketches import Recorded

DATA = """\
DATA is a JSONL file, or a folder of such files: each line a list of messages,
or an object with such a list as its "messages" and, if it has one, an "id".
OpenAI chat, OpenAI Responses and Anthropic are recognised.
"""

CHAT_ONLY = "Methods other than none and those of FOCUS read chat only.\n"

REPLAY_METHODS = f"""\
{METHODS}  focus                        FOCUS as it is shipped
"""

USUAL_METHODS = ("none", "fifo", "retrieval", "masking-10", "masking-5", "masking-3", "focus-d", "focus")


def add_data(parser: argparse.ArgumentParser, *, budget: bool = True) -> None:
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="recorded runs, see above")
    add = parser.add_argument_group("which runs").add_argument
    add("--limit", type=int, metavar="N", help="only the first N runs of each file")
    if budget:
        add(
            "--budget",
            type=_budget,
            metavar="TOKENS",
            help="δ: compress above this (default: auto, which is 4096, or 1024 for a file of short dialogues)",
        )


def add_methods(parser: argparse.ArgumentParser, methods: tuple[str, ...], draft: str) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("what to compare")
    add = group.add_argument
    add("--methods", nargs="+", metavar="NAME", help=f"see below (default: {' '.join(methods)})")
    parser.set_defaults(usual_methods=methods, model="gpt-4.1")
    add("--draft", help=f"who sketches plans, see below (default: {draft})")
    add("--sketches", type=Path, metavar="FILE", help="recorded sketches, played at the points they were made for")
    add("--rollouts", type=int, metavar="N", default=3, help="sketches per event (default: 3)")
    add_threshold(group)
    add(
        "--set",
        nargs="+",
        metavar="KEY=VALUE",
        default=[],
        help="settings of `focus` that differ from the shipped ones, such as fill=0.5",
    )
    add("--compressor", metavar="DRAFT", help="who writes summaries for prompting (default: the draft)")
    add("--embedder", default="words", help=EMBEDDERS)
    add("--no-matched", action="store_true", help="no comparators that get as many tokens as FOCUS left")
    return group


def add_running(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how to run").add_argument
    add("--out", type=Path, metavar="FOLDER", help="where records go (default: below focusctx-replay, by data)")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="processes (default: the cores), or, where a model is asked, runs at once (default: 64)",
    )
    add("--engine", choices=("local", "ray"), default="local", help="ray: on a Ray cluster, with focusctx-bench[ray]")
    add(
        "--deadline",
        type=float,
        metavar="SECONDS",
        default=600.0,
        help="how long the sketches of an event may take (default: 600)",
    )


def runs_of(arguments: argparse.Namespace) -> list[Run]:
    from ..replay.runs import read_runs

    check_positive(arguments, "limit", "jobs", "rollouts", "deadline")
    runs = read_runs(arguments.data, arguments.limit)
    if not any(run.messages for run in runs):
        raise Problem(f"no run in {' '.join(map(str, arguments.data))}")
    return runs


def budgets_of(arguments: argparse.Namespace, runs: list[Run]) -> dict[str, int]:
    """Return δ for each file; print it if it was chosen here."""
    from ..replay.budgets import budgets_for
    from .terminal import printable

    budgets = budgets_for(runs, arguments.budget)
    if arguments.budget is None:
        told = ", ".join(f"{printable(file)} {budget}" for file, budget in budgets.items())
        sys.stderr.write(f"budget δ, chosen by the length of the runs: {told}\n")
    return budgets


def plan_of(
    arguments: argparse.Namespace, runs: list[Run], recorded: list[Recorded], more: tuple[str, ...] = ()
) -> Plan:
    """Build the plan that the options describe; `more` are methods that only this command has."""
    from ..replay.methods import ANY_FORMAT
    from ..replay.runner import Plan

    if not (arguments.methods or all(run.format == "chat_completions" for run in runs)):
        arguments.methods = ANY_FORMAT
    setup = setup_of(arguments, recorded)
    setup.check(more)
    return Plan(setup, runs, budgets_of(arguments, runs), recorded, arguments.engine, arguments.jobs)


def setup_of(arguments: argparse.Namespace, recorded: list[Recorded]) -> Setup:
    from ..replay.methods import Setup

    return Setup(
        methods=tuple(dict.fromkeys(arguments.methods or arguments.usual_methods)),
        draft=arguments.draft,
        recorded=next((one.draft for one in recorded if one.draft), "recorded") if recorded else None,
        rollouts=arguments.rollouts,
        threshold=arguments.threshold,
        changes=tuple(map(_setting, arguments.set)),
        compressor=arguments.compressor,
        embedder=arguments.embedder,
        deadline=arguments.deadline,
        model=arguments.model,
        matched=not arguments.no_matched,
    )


def recorded_of(arguments: argparse.Namespace, runs: list[Run]) -> list[Recorded]:
    return sketches_in(arguments.sketches, runs) if arguments.sketches else []


def sketches_in(path: Path, runs: list[Run]) -> list[Recorded]:
    """Return all recorded sketches of a file; at least some must belong to these runs."""
    from ..replay.sketches import Sketches

    recorded = list(Sketches(path))
    known = {(run.file, run.id) for run in runs}
    if not any((one.file, one.id) in known for one in recorded):
        asked = ", ".join(dict.fromkeys(run.file for run in runs))
        there = ", ".join(dict.fromkeys(one.file for one in recorded)) or "none"
        raise Problem(f"none of the {len(recorded)} recorded points is of a run in {asked}; files there: {there}")
    return recorded


def folder_of(arguments: argparse.Namespace) -> Path:
    """Return the folder for records, always the same for the same data."""
    names = "-".join(dict.fromkeys(path.resolve().name.removesuffix(".jsonl") for path in arguments.data))
    folder: Path = arguments.out or Path("focusctx-replay") / names[:100]
    return folder


def _budget(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens and not auto")
    return number


def _setting(text: str) -> tuple[str, Any]:
    """Parse a setting such as `fill=0.45`; a value that is not JSON is a word."""
    name, equals, value = text.partition("=")
    if not equals:
        raise Problem(f"--set wants KEY=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
