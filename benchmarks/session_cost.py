"""What a recorded run costs at a caching provider's prices, with focusctx and without.

Every run in ../shared/trajectories is replayed: at each assistant turn the agent makes one call with its history so
far, through `session.view`. A call's input is what the provider has cached, at the read price `r`, and the rest, at
the write price `w`. Cached is the longest common prefix, by messages, of this call's view and the one before; this is
worked out here from the views alone, and the session's own ledger is then held against it.

Assumptions. Calls come fast enough that the cache stays warm (a cold one only helps the smaller view), the system
prompt is cached from the first call on, and caches have no smallest size. The run goes on as it was recorded, so
output costs the same in both. The sketches are those of the offline draft, paid for as if gpt-5-mini had written
them: the prompt once, and 250 tokens a sketch. `recorded` replays, for the 40 runs in ../shared/sketches, from the
event that a frontier model sketched for, with its sketches at that event and the offline draft's at later ones.

Each run is replayed under both rules: `kept`, the default, where an event that does not pay waits until the view is a
quarter over the budget at most, and `pays`, `only_if_it_pays=True`, where it is never made. What must hold with `pays`,
in every run: the cost is not above the uncompressed run's by more than the one event that could not be foreseen, which
is at most the run's most expensive one (its draft and its re-read).

    python benchmarks/session_cost.py             # about 10 minutes; --quick: 5 runs a file, a minute at most
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from focusctx import Focus
from focusctx.drafts.offline import OfflineDraft
from focusctx.prices import Price, price_of
from focusctx.replay.walk import CallInput, calls_of
from focusctx.tokens import Counter
from focusctx.types import Message, Prompt, Reply, Usage

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = ("gpt-5", "claude-sonnet-5", "deepseek-v4-pro")
DRAFT = "gpt-5-mini"
RULES = ("kept", "pays")
SKETCH_TOKENS = 250
ROLLOUTS = 3
BUDGETS = {"swebench": (4096, 8192, 20_000), "tau2": (1024,)}
QUICK_RUNS = 5
RESAMPLES = 2000
DISAGREEMENT = 0.02
"""Tolerated gap between the session's own ledger and the accounting here, as a share of the cost of the run."""

Messages = Sequence[Message]


# Money.


def message_size(message: Message, count: Callable[[str], int]) -> int:
    """Return the tokens of a chat message's texts and tool calls."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    texts = [message.get("content") or "", message.get("reasoning_content") or ""]
    texts += [f"{call['name']}({call['arguments']})" for call in calls]
    return sum(count(text) for text in texts if text)


def reread(call: CallInput, price: Price) -> float:
    """USD that a call cost more because its prefix had moved."""
    return price.cost((price.cache_write - price.cache_read) * call.again)


@dataclass(frozen=True, slots=True)
class Draw:
    """One request to the draft."""

    call: int
    """The number of the agent's call at which it was made."""
    input_tokens: int
    output_tokens: int

    def cost(self, price: Price) -> float:
        return price.cost(self.input_tokens, self.output_tokens)


def event_costs(calls: Sequence[CallInput], draws: Sequence[Draw], agent: Price, draft: Price) -> list[float]:
    """USD for each event: a moved prefix with the last draw before it; a draw that moved nothing is one by itself."""
    waiting = list(draws)
    costs = []
    for number, call in enumerate(calls):
        if call.again:
            earlier = [draw for draw in waiting if draw.call <= number]
            if earlier:
                waiting.remove(earlier[-1])
            costs.append(reread(call, agent) + sum(draw.cost(draft) for draw in earlier[-1:]))
    return costs + [draw.cost(draft) for draw in waiting]


# The replay.


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded run, and how to replay it."""

    file: str
    id: str
    messages: list[dict[str, Any]]
    budget: int
    start: int = 0
    """Number of messages in the history when focusctx joins; before that the agent sends all of it."""
    sketches: tuple[str, ...] = ()
    """For the first event; the offline draft sketches for the others."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cost of one run under one setting, in USD."""

    case: Case
    model: str
    rule: str
    full: float
    """Without focusctx: input and output."""
    focus: float
    """With it, drafts included."""
    drafts: float
    rereads: float
    worst_event: float
    events: int
    """Times that the prefix moved."""
    draws: int
    longest: float
    """The longest view, as a multiple of the budget."""
    ledger_gap: float
    """Difference of the session's own net saving from `full - focus`."""

    @property
    def excess(self) -> float:
        """USD above what the requirement allows."""
        return self.focus - self.full - self.worst_event

    @property
    def is_broken(self) -> bool:
        return self.excess > 1e-9 * self.full  # sums of many floats

    def __str__(self) -> str:
        case = self.case
        return (
            f"{case.file} {case.id}{' (recorded)' if case.sketches else ''}, δ {case.budget}, {self.model}:"
            f" ${self.full:.4f} → ${self.focus:.4f}, most expensive event ${self.worst_event:.4f},"
            f" {self.events} events, {self.draws} draws"
        )


@cache
def counter() -> Counter:
    """One for the process: the same texts come under every setting."""
    return Counter(room=100_000_000)


class PricedDraft:
    """Says what the offline draft says, or what was recorded, at the price of a model."""

    name = f"openai:{DRAFT}"

    def __init__(self, recorded: Sequence[str] = ()) -> None:
        self.draws: list[Draw] = []
        self.call = 0
        self._recorded = list(recorded)
        self._offline = OfflineDraft()

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        count = counter().count
        draw = Draw(self.call, count(prompt.system) + count(prompt.user), n * SKETCH_TOKENS)
        self.draws.append(draw)
        usage = Usage(requests=1, input_tokens=draw.input_tokens, output_tokens=draw.output_tokens)
        said, self._recorded = self._recorded, []
        for text in said[:n]:
            yield Reply(text, usage)
            usage = Usage()
        if said:
            return
        async with aclosing(self._offline.sample(prompt, n)) as replies:  # type: ignore[type-var]
            async for reply in replies:
                yield Reply(reply.text, usage)
                usage = Usage()


@dataclass(frozen=True, slots=True)
class Replay:
    """The agent's calls, and what the session says about them."""

    calls: list[CallInput]
    draws: list[Draw]
    net: float
    longest: int
    """Tokens of the longest view."""


async def replay(case: Case, model: str, rule: str) -> Replay:
    """Send the run through a session."""
    draft = PricedDraft(case.sketches)
    focus = Focus(draft, budget=case.budget, rollouts=ROLLOUTS, tokens=counter().count)
    session = focus.session(model=model, only_if_it_pays=rule == "pays", clock=lambda: 0.0)
    views: list[Messages] = []
    longest = 0
    turns = turns_of(case.messages)
    for number, turn in enumerate(turns):
        draft.call = number
        history = case.messages[:turn]
        views.append(await session.aview(history) if turn >= case.start else history)
        longest = max(longest, session.size[1])
        # The agent's own call takes longer than sketches that were asked for ahead of time.
        if ahead := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(ahead)
    session.close()
    return Replay(calls_of(views, fresh_of(turns), size), draft.draws, session.savings.net or 0.0, longest)


def turns_of(messages: Sequence[Message]) -> list[int]:
    """Return the length of the history at each call: every assistant turn but a greeting before anybody has spoken."""
    spoken = next((place for place, message in enumerate(messages) if message["role"] == "user"), len(messages))
    return [place for place, message in enumerate(messages) if message["role"] == "assistant" and place > spoken]


def fresh_of(turns: Sequence[int]) -> list[int]:
    """Return the number of new messages at each call."""
    return [turn - before for before, turn in zip((0, *turns), turns, strict=False)]


def size(message: Message) -> int:
    return message_size(message, counter().count)


def outcomes(case: Case) -> list[Outcome]:
    """The run under every setting."""
    turns = turns_of(case.messages)
    whole = calls_of([case.messages[:turn] for turn in turns], fresh_of(turns), size)
    written = sum(size(case.messages[turn]) for turn in turns)
    draft = known_price(DRAFT)
    found = []
    for model in MODELS:
        price = known_price(model)
        output = price.cost(0, written)
        full = sum(call.cost(price) for call in whole) + output
        for rule in RULES:
            run = asyncio.run(replay(case, model, rule))
            drafts = sum(draw.cost(draft) for draw in run.draws)
            focus = sum(call.cost(price) for call in run.calls) + output + drafts
            gap = 0.0 if case.start else run.net - (full - focus)  # a session that joins late knows less
            found.append(
                Outcome(
                    case=replace(case, messages=[]),  # it goes back to another process
                    model=model,
                    rule=rule,
                    full=full,
                    focus=focus,
                    drafts=drafts,
                    rereads=sum(reread(call, price) for call in run.calls),
                    worst_event=max(event_costs(run.calls, run.draws, price, draft), default=0.0),
                    events=sum(call.again > 0 for call in run.calls),
                    draws=len(run.draws),
                    longest=run.longest / case.budget,
                    ledger_gap=gap,
                )
            )
    return found


def known_price(model: str) -> Price:
    price = price_of(model)
    if price is None:
        raise SystemExit(f"{model} has no price in prices.toml")
    return price


# The data.


def cases(quick: bool) -> Iterator[Case]:
    """Yield every run under every δ, and the recorded events."""
    runs = {path.name: _lines(path) for path in sorted((SHARED / "trajectories").glob("*.jsonl"))}
    if not runs:
        raise FileNotFoundError(f"no runs in {SHARED / 'trajectories'}")
    for file, every in runs.items():
        budgets = BUDGETS[file.split("_", 1)[0]]
        for run in every[:: max(len(every) // QUICK_RUNS, 1)][:QUICK_RUNS] if quick else every:
            for budget in budgets[:1] if quick else budgets:
                yield Case(file, run["id"], run["messages"], budget)
    messages = {(file, run["id"]): run["messages"] for file, every in runs.items() for run in every}
    events = _lines(SHARED / "sketches" / "sketches.jsonl")
    for event in events[::4] if quick else events:
        yield Case(
            file=event["file"],
            id=event["id"],
            messages=messages[event["file"], event["id"]],
            budget=event["budget"],
            start=event["messages"],
            sketches=tuple(event["replies"]),
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# The report.


def interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A 95 % bootstrap interval, over runs, of the share saved."""
    rng = random.Random(0)
    shares = sorted(saved_share(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return shares[int(0.025 * RESAMPLES)], shares[int(0.975 * RESAMPLES)]


def saved_share(pairs: Iterable[tuple[float, float]]) -> float:
    full, focus = map(sum, zip(*pairs, strict=True))
    return float(1 - focus / full)


def report(found: Sequence[Outcome]) -> None:
    """Print one row for each file, δ and model, with the two rules side by side."""
    groups: defaultdict[Row, dict[str, list[Outcome]]] = defaultdict(lambda: {rule: [] for rule in RULES})
    for outcome in found:
        case = outcome.case
        row = Row(bool(case.sketches), case.file.removesuffix(".jsonl"), case.budget, MODELS.index(outcome.model))
        groups[row][outcome.rule].append(outcome)
    columns = ["below by", "95 %", "events/run", "drafts $", "re-reads $", "worst run", "longest view"]
    head = ["file", "δ", "model", "runs", "full $"]
    head += [f"{title}: {name}" for title in RULES for name in columns]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row, group in sorted(groups.items()):
        cells = [row.file + (", recorded" if row.recorded else ""), f"{row.budget:,}", MODELS[row.model]]
        cells += [str(len(group["kept"])), f"{sum(outcome.full for outcome in group['kept']):.2f}"]
        print(f"| {' | '.join([*cells, *_figures(group['kept']), *_figures(group['pays'])])} |")


class Row(NamedTuple):
    recorded: bool
    file: str
    budget: int
    model: int


def _figures(group: Sequence[Outcome]) -> list[str]:
    pairs = [(outcome.full, outcome.focus) for outcome in group]
    low, high = interval(pairs)
    worst = max(focus / full - 1 for full, focus in pairs)
    return [
        f"{saved_share(pairs):.1%}",
        f"{low:.1%} … {high:.1%}",
        f"{sum(outcome.events for outcome in group) / len(group):.1f}",
        f"{sum(outcome.drafts for outcome in group):.2f}",
        f"{sum(outcome.rereads for outcome in group):.2f}",
        f"{worst:+.1%}",
        f"{max(outcome.longest for outcome in group):.1f} δ",
    ]


def verdict(found: Sequence[Outcome]) -> int:
    """Says what does not hold; the exit status."""
    for rule in RULES:
        group = [outcome for outcome in found if outcome.rule == rule]
        broken = sorted((outcome for outcome in group if outcome.is_broken), key=lambda outcome: -outcome.excess)
        print(f"\nRule `{rule}`: {len(broken)} of {len(group)} replays cost more than the")
        print("uncompressed run by more than their most expensive event.")
        for outcome in broken if rule == "pays" else ():
            print(f"- {outcome}")
    gaps = [abs(outcome.ledger_gap) / outcome.full for outcome in found]
    off = sum(gap > DISAGREEMENT for gap in gaps)
    print(f"\n`session.savings` is off by more than {DISAGREEMENT:.0%} of what the run costs in {off} of {len(found)}")
    print(f"replays, and by {max(gaps):.2%} at most.")
    return int(any(outcome.rule == "pays" and outcome.is_broken for outcome in found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs a file, one δ each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--dump", type=Path, help="a file for every outcome, as JSON lines")
    arguments = parser.parse_args()
    try:
        every = list(cases(arguments.quick))
    except OSError as error:
        print(f"the recorded runs are missing: {error}", file=sys.stderr)
        return 2
    every.sort(key=lambda case: -len(case.messages))  # long ones first, so that no process ends alone
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context, initializer=_quiet) as pool:
        found = [outcome for group in pool.map(outcomes, every, chunksize=4) for outcome in group]
    if arguments.dump:
        arguments.dump.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in found))
    report(found)
    return verdict(found)


def _quiet() -> None:
    logging.getLogger("focusctx").setLevel(logging.ERROR)


if __name__ == "__main__":
    sys.exit(main())
