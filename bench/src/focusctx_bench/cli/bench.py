"""Options of `focusctx bench`: run the benchmarks under every method, and make the paper's tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from focusctx.cli.command import commands_of, parser_for
from focusctx.cli.options import DRAFTS, EMBEDDERS, METHODS

from ..benchmarks import NAMES
from . import later
from .replay import add_report_options

if TYPE_CHECKING:
    from focusctx.cli.command import Commands

_RUN = """\
Run an agent through benchmarks under compression methods, and print the table.

It can be stopped at any time: run the same command again to continue. Nothing
is done twice. `focusctx bench run --out FOLDER` alone continues the run in
FOLDER.
"""
_RUN_EPILOG = f"""\
{METHODS}  acon-ut, acon-utco           a summary by a guideline, see --guideline-ut
  all                          the paper's methods: all of the above that can run

beyond the paper:
  focus                        what `Focus` and a session do by default;
                               --set focus.KEY=VALUE changes any of their settings
  random, newest, retrieval-matched
                               whole turns by chance, age or likeness, at the
                               tokens that focus sends at the same event
  clear-tool-uses              old tool results cleared above the budget;
                               --set clear-tool-uses.keep=5 and the like
  summary                      one running summary with open work, deeds and
                               exact values, written by --compressor

several values:
  --draft, --budget, --rollouts, --threshold and --rollout-mode take several
  values: each method runs at every combination of those it uses.

{DRAFTS}  scripted                     the benchmark's own planner, where it has one (office)

exit codes:
  0    every task has its record
  3    some have none: the spending limit was reached, or tasks failed; run the
       same command again
  others as for all commands, see `focusctx --help`

with no key, no model and no download:
  focusctx bench run --benchmark office --methods all --draft offline
"""
_REPORT = """\
Make tables and figures of everything that was run into FOLDER or below it:
main results, by difficulty, draft model, N and budget, latency and cost, with
confidence intervals, and the paper's figures beside them where the setting is
the same.
"""


_ACON = """\
Make the guidelines of acon-ut and acon-utco for a benchmark: run its training
tasks with the full history and under a start guideline, let a strong model
improve the guideline on what went wrong (ut.md), run again, and let it be
shortened on what went well (utco.md).

It can be stopped at any time: the same command goes on where it was. Beside
each guideline a .json file says which models and tasks it was made with, what
it cost, and what the optimiser found.
"""
_ACON_EPILOG = f"""\
{DRAFTS}
then:
  focusctx bench run … --methods acon-ut acon-utco \\
    --guideline-ut FOLDER/ut.md --guideline-utco FOLDER/utco.md
"""
_LIVE = """\
Compare live runs: the benchmark's score beside tokens per request, deeds done
twice, look-ups repeated and the like, paired by task, with intervals. Writes
table.md, a picture per benchmark, and the numbers of every run (runs.csv,
runs.jsonl).

  focusctx bench live full=out/full focus=out/focus summary=out/summary --out docs/results/live
"""
_RELAY = """\
An OpenAI-compatible server whose answers are written by readers who work from
a shell: strong models, or people. Programs ask http://127.0.0.1:PORT/ARM/v1,
where ARM is any name for what is compared.

Who reads an agent's conversation goes on with it until its beginning changes;
then it goes to somebody who has never seen the task. See docs/live.md.
"""
_REPLY = """\
Give the answer on standard input, then wait for the next request and print it.
An agent's answer is JSON, {"content": "...", "tool_calls": [{"name": "...",
"arguments": {...}}]}, of which either part may be missing; an answer to a
question (--kind once) is plain text.
"""


def add_to(commands: Commands) -> None:
    summary = "rerun the paper: benchmarks, methods, tables and figures"
    parts = commands_of(parser_for(commands, "bench", summary, "Rerun the paper's experiments on any model."))
    _add_run(parts)
    _add_report(parts)
    _add_tasks(parts)
    _add_acon(parts)
    _add_live(parts)
    _add_relay(parts)


def _add_run(parts: Commands) -> None:
    parser = parser_for(parts, "run", "run benchmarks under methods", _RUN, _RUN_EPILOG)
    _add_benchmarks(parser)
    group = parser.add_argument_group("what to compare")
    what = group.add_argument
    what("--methods", nargs="+", metavar="NAME", help="see below (default: all that can run here)")
    what("--model", help="the agent's model, named like a draft (default: the benchmark's scripted agent)")
    what(
        "--through",
        metavar="URL",
        help="of a focusctx proxy, as http://127.0.0.1:8401, that --model points to: records then hold what it saved",
    )
    what(
        "--draft",
        dest="drafts",
        nargs="+",
        metavar="DRAFT",
        help="the model that sketches plans, see below (default: MODEL, else offline)",
    )
    what(
        "--compressor",
        metavar="DRAFT",
        help="the model that writes the summaries of prompting and acon (default: the draft)",
    )
    what(
        "--budget",
        dest="budgets",
        nargs="+",
        type=int,
        metavar="TOKENS",
        help="δ: compress above this many tokens (default: the paper's for the benchmark; ours where it states none)",
    )
    what("--rollouts", nargs="+", type=int, metavar="N", help="sketches per event (default: 3)")
    what(
        "--rollout-mode",
        dest="rollout_modes",
        nargs="+",
        choices=("n", "parallel", "sequential"),
        help="how sketches are requested: all in one request, N at once, or one after the other "
        "(default: n where the server has it, else parallel)",
    )
    what(
        "--threshold",
        dest="thresholds",
        nargs="+",
        type=float,
        metavar="TAU",
        help="τ: keep spans that at least this share of the sketches cites (default: 0.3)",
    )
    what("--embedder", help=EMBEDDERS)
    what("--llmlingua-model", metavar="NAME", help="for llmlingua: a hub name or a folder (default: the paper's)")
    what("--guideline-ut", metavar="FILE", help="guideline of acon-ut; shipped:office/ut.md is an example")
    what("--guideline-utco", metavar="FILE", help="guideline of acon-utco")
    which = parser.add_argument_group("which tasks").add_argument
    which("--tasks", type=int, metavar="N", help="only the first N of each benchmark")
    which("--task", nargs="+", metavar="ID", help="only these")
    which("--step-limit", type=int, metavar="N", help="maximum turns of a task (default: the task's own)")
    how = parser.add_argument_group("how to run").add_argument
    how("--out", type=Path, metavar="FOLDER", help="folder for records (default: one per settings in focusctx-bench)")
    how("--concurrency", type=int, metavar="N", help="tasks at a time (default: 8; 1 if no model is asked)")
    how("--repeats", type=int, metavar="N", help="run every task N times and show the spread (default: 1)")
    how(
        "--max-cost",
        type=float,
        metavar="USD",
        help="start no more tasks once the whole run has cost this much: agent, draft, user simulator and judge",
    )
    how("--estimate", action="store_true", help="print what the run would cost, and run nothing")
    how("--engine", choices=("local", "ray"), default="local", help="ray: on a Ray cluster, with focusctx-bench[ray]")
    parser.set_defaults(run=later("run", "run"))


def _add_report(parts: Commands) -> None:
    parser = parser_for(parts, "report", "tables and figures of what was run", _REPORT)
    add_report_options(parser, "of a run, or of several")
    parser.set_defaults(run=later("run", "report"))


def _add_acon(parts: Commands) -> None:
    parser = parser_for(parts, "acon", "make ACON's guidelines from training runs", _ACON, _ACON_EPILOG)
    _add_benchmarks(parser)
    what = parser.add_argument_group("who does what").add_argument
    what("--model", help="the agent's model (default: the benchmark's scripted agent, where it has one)")
    what("--compressor", help="who writes summaries by the guideline (default: MODEL)")
    what("--optimiser", help="the strong model that writes guidelines (default: COMPRESSOR)")
    what("--budget", type=int, metavar="TOKENS", help="δ: compress above this (default: the benchmark's)")
    what("--tasks", type=int, metavar="N", help="only the first N training tasks")
    what("--step-limit", type=int, metavar="N", help="the most turns of a task (default: the task's own)")
    how = parser.add_argument_group("how to run").add_argument
    how("--out", type=Path, metavar="FOLDER", required=True, help="where runs and guidelines go")
    how("--concurrency", type=int, metavar="N", default=8, help="tasks at once (default: 8)")
    how("--max-cost", type=float, metavar="USD", help="stop once all of it has cost this much")
    parser.set_defaults(run=later("run", "acon"))


def _add_live(parts: Commands) -> None:
    parser = parser_for(parts, "live", "compare live runs, arm by arm", _LIVE)
    parser.add_argument("folders", nargs="+", metavar="[NAME=]FOLDER", help="of a run; NAME is how the arm is called")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--reference", metavar="NAME", help="the arm to compare with (default: full or none)")
    parser.set_defaults(run=later("run", "live"))


def _add_tasks(parts: Commands) -> None:
    parser = parser_for(parts, "tasks", "list the tasks of a benchmark", "List the tasks, with their difficulty.")
    _add_benchmarks(parser)
    parser.set_defaults(run=later("run", "tasks"))


def _add_benchmarks(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("benchmarks").add_argument
    add(
        "--benchmark",
        nargs="+",
        metavar="NAME",
        default=[],
        help=f"{', '.join(NAMES)} (office, our testbed, needs nothing else)",
    )
    add("--data", nargs="+", metavar="[NAME=]PATH", default=[], help="what a benchmark reads: a checkout, a data set")
    add(
        "--split",
        nargs="+",
        metavar="[NAME=]SPLIT",
        default=[],
        help="the benchmark's name for it (default: the paper's)",
    )
    add(
        "--set",
        nargs="+",
        metavar="[NAME.]KEY=VALUE",
        default=[],
        help="what only one benchmark or method knows, as domain=retail or focus.rollouts=5",
    )
    add("--seed", type=int, help="of benchmarks and of the agent's model (default: 42)")


def _add_relay(parts: Commands) -> None:
    summary = "a model server whose answers are written by readers"
    commands = commands_of(parser_for(parts, "relay", summary, _RELAY))
    serve = parser_for(commands, "serve", "start the server", _RELAY)
    serve.add_argument("--log", type=Path, default=Path("relay.jsonl"), help="all requests and answers, to resume from")
    serve.add_argument("--patience", type=float, default=300.0, help="seconds until a request goes to another reader")
    take = parser_for(commands, "take", "wait for a request and print it", "Wait for a request and print it.")
    reply = parser_for(commands, "reply", "answer a request, and take the next", _REPLY)
    reply.add_argument("id", metavar="ID", help="of the request, as it was printed")
    status = parser_for(commands, "status", "show what waits for whom", "Show open requests and readers.")
    for parser in (take, reply):
        parser.add_argument("--reader", required=True, help="your name: each reader has one of their own")
        parser.add_argument("--kind", choices=("agent", "once"), default="agent", help="what to read (default: agent)")
        parser.add_argument("--arm", default="*", help="take requests of these arms only, such as '*-user'")
        parser.add_argument("--wait", type=float, default=540.0, help="seconds to wait for a request (default: 540)")
    for name, parser in (("serve", serve), ("take", take), ("reply", reply), ("status", status)):
        parser.add_argument("--port", type=int, default=9000, help="of the relay (default: 9000)")
        parser.set_defaults(run=later("relay", name))
