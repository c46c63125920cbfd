"""Count how often a rule that the agent read early is still shown at the end of a run: docs/results/rules.md.

    python benchmarks/rules.py [--runs 50] [--out docs/results/rules.md]

A rule is put into an early result of a recorded run. Each method then gets the run step by step, and the last request
is searched for the rule's sentence, word for word. No model is asked, so a summary cannot be measured here.

A rule has one of twelve wordings, six with a cue word ("never", "at most", ...) and six without, and stands in one of
three places: on a line of its own in a policy that the agent opened, inside a paragraph of such a policy, or in passing
in the result of an ordinary call. Every run gets every wording, and places take turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean

from focusctx.baselines.embedders import embedder_from
from focusctx.baselines.focus import Matched, Rank, at_random, newest_first
from focusctx.baselines.method import Compressed, Method
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.baselines.rules import Retrieval
from focusctx.replay.lines import Interval, bootstrap_groups
from focusctx.replay.runs import Run, part_tokens, read_runs
from focusctx.types import Message
from focusctx.wire import wire_named
from levels import FILES
from page import SHARED, options, publish, quiet, table
from planted_rules import CUED, PLACE_NAMES, PLACES, PLAIN, WORDINGS, WORDS, Case, first_result, with_rule

SHARES = {
    "swebench_deepseek": 8,
    "swebench_gemini-3-pro": 12,
    "tau2_gpt-4.1_airline": 7,
    "tau2_gpt-4.1_retail": 7,
    "tau2_gpt-4.1_telecom": 6,
    "office_runs": 10,
}
"""Runs of each file, of 50."""
LONG = 2
"""Only runs whose full history is at least this many times the budget: all methods must have something to drop."""
FOCUS, MATCHED = "focus", ("random", "newest", "retrieval-matched")
METHODS = ("none", FOCUS, "focus-d", "focus-o", "clear-tool-uses", "masking-10", "masking-3", "fifo", *MATCHED)
KINDS = {"swebench": "coding", "tau2": "service", "office": "office"}
TEXT = """\
# Rules that must survive

Made by `python benchmarks/rules.py --out docs/results/rules.md` from {runs} recorded runs ({files}), with no model and
in six minutes of processor time. An agent reads a rule early in a run. How often does the last request of that run
still show the rule's sentence, word for word?

- Each run's full history is at least twice the budget (1,024 tokens for τ², 4,096 elsewhere). Among those, a hash of
  the ids chose.
- Each run was taken {wordings} times, once with every wording; places take turns. That makes {cases} cases for each
  method. Intervals are 95 % bootstrap intervals over runs.
- `focus` is the shipped default with the offline draft, `focus-d` and `focus-o` are the paper's rules with that draft.
  `random`, `newest` and `retrieval-matched` keep whole steps at the tokens of `focus`, `clear-tool-uses` has the budget
  as trigger, `fifo` (the newest five steps) and masking have no budget. [The methods](../baselines.md).
- `clear-tool-uses` knows results of tool calls only. {texts} of the runs write their commands as text; it leaves those
  alone, and they are not counted for it.
- A running summary needs a model and was **not measured**. Neither was how often an agent breaks a rule that is gone.
- **This page is not held out.** The first time, `focus` showed a rule without a cue word in .03 of the cases and one
  with a cue word in .32: only rules on lines of their own in policies were seen, and none of agents that act in plain
  text. Then a policy that the agent opens stayed whole up to 1,200 characters (the planted ones are that short), which
  made it .69 of all cases, but .08 of those in an ordinary result. Now lines that look like rules are kept in any
  result. The figures are of the same cases after both changes. Words such as
  "only … can" and "please leave" were added to the cue words with these cases in mind, so the column without a cue word
  is no test of other wordings.

## The rule is still shown at the end
"""


@dataclass(frozen=True)
class Outcome:
    """A case under one method, at the last request."""

    run: str
    file: str
    wording: str
    place: str
    method: str
    shown: bool
    sent: float
    """Share of the full history's tokens."""


class Played:
    """A method that answers as another one did on the same history."""

    name = FOCUS

    def __init__(self, answers: Iterable[Compressed]) -> None:
        self._answers = iter(answers)

    async def compress(self, messages: Sequence[Message]) -> Compressed:  # noqa: ARG002
        return next(self._answers)


def chosen_runs(number: int) -> Iterator[tuple[str, Run]]:
    """Return the runs, file by file; of several runs of one task only the first."""
    for file, share in SHARES.items():
        folder, budget = FILES[file]
        runs = {run.id.split(" (line")[0]: run for run in reversed(read_runs([SHARED / folder / f"{file}.jsonl"]))}
        long = [run for run in runs.values() if run.history().tokens >= LONG * budget and first_result(run) is not None]
        long.sort(key=lambda run: hashlib.sha256(f"rules {run.id}".encode()).digest())
        yield from ((file, run) for run in long[: max(round(share * number / 50), 1)])


def cases_of(number: int) -> list[Case]:
    found = []
    for place, (file, run) in enumerate(chosen_runs(number)):
        kind = KINDS[file.split("_")[0]]
        for turn, wording in enumerate(WORDINGS):
            found.append(Case(run, kind, FILES[file][1], wording, PLACES[(place + turn) % len(PLACES)]))
    return found


def outcomes_of(case: Case) -> list[Outcome]:
    quiet()
    messages = with_rule(case)
    turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    heard = next(place for place, message in enumerate(messages) if message["role"] == "user")
    prefixes = [messages[:place] for place in turns if place > heard]
    assert case.rule in _text(prefixes[-1])
    found = []
    answers: list[Compressed] = []
    for name in METHODS:
        if name == "clear-tool-uses" and not any(message["role"] == "tool" for message in messages):
            continue
        sent = asyncio.run(_walk(_method(name, case.budget, answers), prefixes))
        if name == FOCUS:
            answers = sent
        view = sent[-1].messages
        share = _tokens(view) / _tokens(prefixes[-1])
        shown = case.rule in _text(view)
        found.append(Outcome(case.run.id, case.file, case.wording, case.place, name, shown, share))
    return found


def _method(name: str, budget: int, by_focus: Sequence[Compressed]) -> Method:
    ranks: Mapping[str, Callable[[], Rank]] = {
        "random": at_random,
        "newest": lambda: newest_first,
        "retrieval-matched": lambda: Retrieval(embedder_from("words")).rank,
    }
    if name in MATCHED:
        return Matched(name, Played(by_focus), ranks[name]())
    return method_from(name, MethodSettings(budget=budget, draft="offline"))()


async def _walk(method: Method, prefixes: Sequence[Sequence[Message]]) -> list[Compressed]:
    return [await method.compress(prefix) for prefix in prefixes]


def _text(messages: Iterable[Message]) -> str:
    return "\n".join(str(message.get("content") or "") for message in messages)


def _tokens(messages: Iterable[Message]) -> int:
    wire = wire_named("chat_completions")
    return sum(part_tokens(part) for message in messages for part in wire.read(message, 0) if not part.static)


def interval(outcomes: Iterable[Outcome]) -> Interval | None:
    runs: defaultdict[str, list[float]] = defaultdict(list)
    for one in outcomes:
        runs[f"{one.file} {one.run}"].append(float(one.shown))
    return bootstrap_groups(list(runs.values()))


def cell(outcomes: Iterable[Outcome]) -> str:
    found = interval(outcomes)
    return f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]" if found else ""


def text_of(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    methods = {name: [one for one in outcomes if one.method == name] for name in METHODS}
    head = (
        (
            name,
            cell(one for one in own if one.wording in PLAIN),
            cell(one for one in own if one.wording in CUED),
            cell(own),
            f"{fmean(one.sent for one in own):.2f}",
        )
        for name, own in methods.items()
    )
    places = (
        (name, *(cell(one for one in own if one.place == place) for place in PLACES)) for name, own in methods.items()
    )
    by_file = (
        (name, *(cell(one for one in own if one.file == file) for file in SHARES)) for name, own in methods.items()
    )
    shown = [name for name in METHODS if name != "none"]
    wordings = (
        (
            f"{'cue' if wording in CUED else 'none'}",
            text.format(**WORDS["service"]),
            *(_mean(one for one in methods[name] if one.wording == wording) for name in shown),
        )
        for wording, text in WORDINGS.items()
    )
    by_both = (
        (
            PLACE_NAMES[place],
            "cue" if some is CUED else "none",
            *(_mean(one for one in methods[name] if one.wording in some and one.place == place) for name in shown),
        )
        for place in PLACES
        for some in (CUED, PLAIN)
    )
    runs = {case.run.id: case for case in cases}
    texts = sum(not any(message["role"] == "tool" for message in case.run.messages) for case in runs.values())
    names = ", ".join(f"{file} {share}" for file, share in SHARES.items())
    return "\n".join(
        [
            TEXT.format(runs=len(runs), files=names, wordings=len(WORDINGS), cases=len(cases), texts=texts),
            *table(("method", "no cue word", "cue word", "all", "sent in the last request, of the full history"), head),
            "",
            reading(methods),
            "",
            "## Where the rule stood",
            "",
            *table(("method", *(PLACE_NAMES[place] for place in PLACES)), places),
            "",
            "With and without a cue word:",
            "",
            *table(("place", "cue word", *shown), by_both),
            "",
            "## Files",
            "",
            *table(("method", *SHARES), by_file),
            "",
            "## Wordings",
            "",
            "The wording of service runs; coding and office runs speak of other deeds.",
            "",
            *table(("cue word", "rule", *shown), wordings),
            "",
        ]
    )


def reading(methods: Mapping[str, Sequence[Outcome]]) -> str:
    """Say what went against us, in numbers."""
    ours, chance = methods[FOCUS], methods["random"]
    passing, by_chance = (_mean(one for one in own if one.place == PLACES[2]) for own in (ours, chance))
    opened = _mean(one for one in ours if one.place != PLACES[2])
    return (
        f"**What went against us.** A rule that stands in an ordinary result, in passing, is shown in {passing} of the "
        f"cases by `focus`, and in {by_chance} by steps at random with the same tokens. "
        f"In a policy that the agent opened it is {opened}."
    )


def _mean(outcomes: Iterable[Outcome]) -> str:
    shown = [one.shown for one in outcomes]
    return f"{fmean(shown):.2f}" if shown else ""


def main() -> int:
    parser = options("How often a rule that was read early is still shown at the end.")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()

    def make() -> str:
        cases = cases_of(arguments.runs)
        with ProcessPoolExecutor() as pool:
            return text_of(cases, [one for own in pool.map(outcomes_of, cases, chunksize=4) for one in own])

    return publish(make, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
