"""Make the texts that a small model reads in the study of docs/results/small-model.md. Needs no model and no GPU.

    python benchmarks/small_model/views.py --out .small-model
    python benchmarks/small_model/views.py --out .small-model/held-out --held-out --tasks questions    # other questions

writes `questions.json.gz` (8-objective QA: the last request of every group under every method) and `actions.json.gz`
(recorded runs: what each method shows at an event, and the ten steps that followed). `gpu.py` reads both.

A summary is written by the small model itself, so its place is left open here: the prompt is in the file, and `gpu.py`
puts the answer where `SUMMARY` stands.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from focusctx.baselines.method import Choice, Compressed, Method, Turnwise
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.baselines.rules import NoCompression
from focusctx.replay.facts import Evidence
from focusctx.replay.runs import Run, part_tokens, read_runs
from focusctx.types import History, Message, Reply
from focusctx.wire import wire_named
from focusctx_bench.agent import Agent
from focusctx_bench.baselines.summary import RunningSummary
from focusctx_bench.benchmarks.qa8 import benchmark
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options
from focusctx_bench.replay.agreement.local import conversation, tools_by_file
from focusctx_bench.replay.points import points_of

SHARED = Path(__file__).parents[3] / "shared"
SUMMARY = "@@SUMMARY@@"
SUMMARY_TOKENS = 512
"""The most that the model writes as a summary."""
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in ("focus", "focus-d", "focus-o", "clear-tool-uses", "random", "newest")},
    "focus-0.7": ("focus", {"target": 0.7}),
}
"""Method and settings of each arm that is made by name."""
ARMS = ("full", "nothing", "summary", *METHODS)
GROUPS, QA_BUDGET, SEED = 240, 2048, 42
HELD_OUT = 91
"""Groups of the questions that are left: no setting was chosen with them in view."""
BUDGETS = {
    "swebench_deepseek": ("trajectories", (4096, 8192)),
    "swebench_gemini-3-pro": ("trajectories", (4096, 8192)),
    "tau2_gpt-4.1_airline": ("trajectories", (1024, 2048)),
    "tau2_gpt-4.1_retail": ("trajectories", (1024, 2048)),
    "tau2_gpt-4.1_telecom": ("trajectories", (1024, 2048)),
    "office_runs": ("live", (4096,)),
}
"""Folder and budgets of each file. An event is where a run first exceeds a budget."""
STEPS = 10
LONGEST = 16_000
"""Tokens up to which the full history and the steps after it are read."""
ASK_AGAIN = "Please give the final answer now: one line for each question, such as '1: Paris'. The questions again:"

Turn: TypeAlias = tuple[str, str]
"""Role and text."""


class Nothing(Turnwise):
    """Drops every step but the newest."""

    name = "nothing"

    async def choose(self, history: History) -> Choice | None:  # noqa: ARG002
        return Choice(())


def named(arm: str, budget: int) -> Method:
    """Return the method of an arm in `METHODS`."""
    method, options = METHODS[arm]
    return method_from(method, MethodSettings(budget=budget, draft="offline", method_options=options))()


class Asked:
    """Stands for the model that writes summaries: keeps the prompts."""

    def __init__(self) -> None:
        self.prompts: list[tuple[str, str]] = []

    async def __call__(self, system: str, user: str) -> Reply:
        self.prompts.append((system, user))
        return Reply(SUMMARY)


def tokens_of(messages: Sequence[Message]) -> int:
    """Return the cl100k tokens of messages, system prompt excluded."""
    wire = wire_named("chat_completions")
    return sum(part_tokens(part) for message in messages for part in wire.read(message, 0) if not part.static)


def chat(turns: Sequence[Turn]) -> list[str]:
    """Return turns in the format that Qwen's models read."""
    return [f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns]


class Texts:
    """Texts by number, each kept once: views share most of theirs."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def numbers(self, texts: Sequence[str]) -> list[int]:
        return [self.all.setdefault(text, len(self.all)) for text in texts]


# Questions


async def group_views(number: int, questions: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """Walk through a group with one search per question, under every method; return the last requests.

    None for a group whose passages are so short that nothing has to be compressed.
    """
    task = questions.tasks()[number]
    environment = await questions.start(task)
    asked = [line.split(": ", 1)[1] for line in environment.task.splitlines()[1:]]
    arms: dict[str, Any] = {}
    prompt = None
    for name in names:
        writer = Asked()
        last: list[Sequence[Message]] = []
        turn = iter(range(len(asked) + 1))

        def decide(messages: Sequence[Message], turn: Iterator[int] = turn, last: Any = last) -> Say:
            number = next(turn)
            if number < len(asked):
                return Say("", [("search", {"query": asked[number]})])
            last.append(messages)
            return Say("1: nothing")

        def make(name: str = name, writer: Asked = writer) -> Method:
            if name in ("full", "nothing"):
                return NoCompression()
            if name == "summary":
                return RunningSummary(writer, QA_BUDGET)
            return named(name, QA_BUDGET)

        await Agent(FunctionModel(decide), make).run(questions, task)
        view = last[0]
        if name == "full":
            full = view
        if name == "nothing":
            view = view[:2]
        if name == "summary":
            if not writer.prompts:
                return None
            prompt = summary_prompt(writer, view, full)
        arms[name] = {"turns": ask_for_answers(conversation(view, []), environment.task), "tokens": tokens_of(view)}
    assert len(arms["full"]["turns"]) > 2
    return {"task": task.id, "arms": arms, "summary": prompt}


def summary_prompt(writer: Asked, view: Sequence[Message], full: Sequence[Message]) -> tuple[str, str]:
    """Return the one prompt; make sure that the length of the answer could not have caused another."""
    assert len(writer.prompts) == 1, len(writer.prompts)
    assert tokens_of(view) + 2 * SUMMARY_TOKENS < tokens_of(full)
    return writer.prompts[0]


def ask_for_answers(turns: Sequence[Turn], task: str) -> list[Turn]:
    """Add the request for the final answer, with the questions, to the user's last turn."""
    role, text = turns[-1]
    assert role == "user"
    questions = "\n".join(task.splitlines()[1:])
    return [*turns[:-1], (role, f"{text}\n\n{ASK_AGAIN}\n{questions}")]


def group_worker(number: int, names: Sequence[str]) -> dict[str, Any] | None:
    logging.disable(logging.WARNING)
    return asyncio.run(group_views(number, _questions(), names))


@cache
def _questions() -> Any:
    data = SHARED / "qa" / "nq-open-oracle.jsonl.gz"
    return benchmark(Options(data=data, split="all", seed=SEED, more={"groups": str(GROUPS + HELD_OUT)}))


def answers_of() -> dict[str, list[list[str]]]:
    """Return the right answers of every group."""
    questions = _questions()
    return {task.id: [list(one.answers) for one in questions.groups[task.data["group"]]] for task in questions.tasks()}


def write_questions(out: Path, pool: ProcessPoolExecutor, groups: range, names: Sequence[str]) -> None:
    texts = Texts()
    views = pool.map(partial(group_worker, names=names), groups, chunksize=4)
    found = [group for group in views if group is not None]
    print(f"{len(found)} of {len(groups)} groups have something to compress", file=sys.stderr)
    for group in found:
        for arm in group["arms"].values():
            arm["texts"] = texts.numbers([*chat(arm.pop("turns")), "<|im_start|>assistant\n"])
    _write(out / "questions.json.gz", {"texts": list(texts.all), "groups": found})
    _write(out / "answers.json.gz", answers_of())


# Actions


def events_of(
    run: Run, budgets: Sequence[int], tools: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the run's events with all views and the steps after them."""
    logging.disable(logging.WARNING)
    evidence = Evidence(run)
    found: dict[int, dict[str, Any]] = {}
    for budget in budgets:
        for point in points_of(evidence, budget, (1,)):
            event = asyncio.run(event_at(evidence, point.messages, budget, tools, names))
            if event is not None:
                found.setdefault(point.messages, event)
    return list(found.values())


async def event_at(
    evidence: Evidence, place: int, budget: int, tools: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, Any] | None:
    run = evidence.run
    later = [action for action in evidence.actions if action.messages >= place][:STEPS]
    rest = run.messages[place : evidence.actions[-1].messages + 1]
    if len(later) == STEPS:
        rest = run.messages[place : later[-1].messages + 1]
    history = run.messages[:place]
    if not later or tokens_of(run.messages[: place + len(rest)]) > LONGEST:
        return None
    writer = Asked()
    fixed: dict[str, Method] = {"full": NoCompression(), "nothing": Nothing(), "summary": RunningSummary(writer, 0)}
    arms: dict[str, Any] = {}
    for name in names:
        sent: Compressed = await (fixed.get(name) or named(name, budget)).compress(history)
        if name == "focus" and not sent.happened:
            return None
        arms[name] = {"messages": list(sent.messages), "tokens": tokens_of(sent.messages), "happened": sent.happened}
    steps = {action.messages - place: number for number, action in enumerate(later, 1)}
    writes_commands = not any(message["role"] == "tool" for message in run.messages)
    for arm in arms.values():
        arm["parts"] = parts_of(arm.pop("messages"), rest, steps, tools, writes_commands=writes_commands)
    return {
        "file": run.file.removesuffix(".jsonl"),
        "run": run.id,
        "place": place,
        "budget": budget,
        "arms": arms,
        "summary": writer.prompts[0] if writer.prompts else None,
    }


def parts_of(
    view: Sequence[Message],
    rest: Sequence[Message],
    steps: Mapping[int, int],
    tools: Sequence[Mapping[str, Any]],
    *,
    writes_commands: bool,
) -> list[tuple[str, int]]:
    """Return the conversation as texts, each with the step whose action it is, or 0.

    An action is the turn's calls, or for an agent that writes commands as text its whole turn. Words to a user are not
    one.
    """
    parts: list[tuple[str, int]] = []
    before = list(view)
    for place, message in enumerate(rest):
        step = steps.get(place, 0)
        acts = message["role"] == "assistant" and step and (bool(message.get("tool_calls")) or writes_commands)
        if acts:
            if before:
                parts += _shown(before, tools, first=not parts)
                before = []
            calls, words = _action({**message})
            parts += [("<|im_start|>assistant\n", 0), (calls, step), (f"{words}<|im_end|>\n", 0)]
        else:
            before.append(message)
    return parts


def _shown(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, first: bool) -> list[tuple[str, int]]:
    """Return messages as texts; tools are described in the system prompt, which comes first."""
    placeholder: Message = {"role": "assistant", "content": ""}  # so that no request for a call is added
    turns = conversation([*messages, placeholder], tools if first else [])
    if turns[-1] == ("assistant", ""):
        turns = turns[:-1]
    return [(text, 0) for text in chat(turns)]


def _action(message: Message) -> tuple[str, str]:
    """Return the action as text, and the words after it."""
    whole = conversation([message], [])[0][1]
    if not message.get("tool_calls"):
        return whole, ""
    calls = conversation([{**message, "content": None}], [])[0][1]
    assert whole.startswith(calls)
    return calls, whole[len(calls) :]


def write_actions(out: Path, pool: ProcessPoolExecutor, limit: int | None, names: Sequence[str]) -> None:
    texts = Texts()
    events: list[dict[str, Any]] = []
    for name, (folder, budgets) in BUDGETS.items():
        runs = read_runs([SHARED / folder / f"{name}.jsonl"], limit)
        tools = tools_by_file(runs)
        views = partial(events_of, budgets=budgets, tools=next(iter(tools.values())), names=names)
        own = [event for some in pool.map(views, runs) for event in some]
        print(f"{name}: {len(own)} events", file=sys.stderr)
        events += own
    for event in events:
        for arm in event["arms"].values():
            parts = arm.pop("parts")
            arm["texts"] = list(zip(texts.numbers([text for text, _ in parts]), [s for _, s in parts], strict=True))
    _write(out / "actions.json.gz", {"texts": list(texts.all), "events": events})


def _write(path: Path, value: Any) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
        json.dump(value, file, ensure_ascii=False)
    print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the texts that a small model reads.")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--groups", type=int, help="only the first N groups", metavar="N")
    parser.add_argument("--held-out", action="store_true", help="the groups behind the first 240")
    parser.add_argument("--tasks", nargs="+", choices=("questions", "actions"), default=("questions", "actions"))
    parser.add_argument("--runs", type=int, metavar="N", help="only the first N runs of each file")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS, help="only these, beside full and focus")
    parser.add_argument("--processes", type=int, help="one for each core by default")
    arguments = parser.parse_args()
    if not SHARED.is_dir():
        print(f"no recorded runs at {SHARED}", file=sys.stderr)
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in ARMS if name in ("full", "focus", *arguments.arms)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        if "questions" in arguments.tasks:
            groups = range(GROUPS, GROUPS + HELD_OUT) if arguments.held_out else range(GROUPS)
            write_questions(arguments.out, pool, groups[: arguments.groups], names)
        if "actions" in arguments.tasks:
            write_actions(arguments.out, pool, arguments.runs, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
