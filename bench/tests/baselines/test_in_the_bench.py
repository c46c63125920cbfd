"""Methods at work: an agent that reads a ledger of thirty pages, and what its records teach."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from bench_helpers.answers import SPENT, Scripted, every_third_word
from bench_helpers.ledger import Ledger, auditor
from focusctx.baselines.embedders import embedder_from
from focusctx.baselines.focus import FocusMethod
from focusctx.baselines.method import Method
from focusctx.baselines.rules import Fifo, Masking, NoCompression, Retrieval
from focusctx.types import Usage
from focusctx_bench.agent import Agent
from focusctx_bench.baselines.acon import contrasts, run_as_text, successes
from focusctx_bench.baselines.summary import LLMLingua, Prompting
from focusctx_bench.record import Record

BUDGET = 1500


def prompting() -> Prompting:
    return Prompting(Scripted(*(f"Completed: part {part}." for part in range(40))), BUDGET)


METHODS: dict[str, Callable[[], Method]] = {
    "fifo": Fifo,
    "masking": lambda: Masking(3),
    "retrieval": lambda: Retrieval(embedder_from("words"), BUDGET),
    "llmlingua": lambda: LLMLingua(every_third_word, BUDGET),
    "prompting": prompting,
    "focus-o": lambda: FocusMethod("offline", BUDGET, defensive=False),
    "focus-d": lambda: FocusMethod("offline", BUDGET),
}


async def record(method: Callable[[], Method]) -> Record:
    benchmark = Ledger()
    return await Agent(auditor(), method).run(benchmark, benchmark.tasks()[0])


@pytest.mark.parametrize("name", METHODS)
async def test_a_whole_task_in_less_room(name: str) -> None:
    full, short = await record(NoCompression), await record(METHODS[name])
    assert short.score.success == full.score.success == 1
    assert max(step.input_tokens for step in short.steps) < 0.7 * max(step.input_tokens for step in full.steps)
    assert any(step.event and step.event.happened for step in short.steps)
    assert not any(step.event and step.event.failure for step in short.steps)


async def test_the_budget_holds_older_turns_at_bay() -> None:
    short = await record(prompting)
    sizes = [step.history_tokens for step in short.steps]
    longest_turn = max(after - before for before, after in pairwise(sizes))
    assert max(step.input_tokens for step in short.steps) <= BUDGET + 2 * longest_turn + 200
    events = [step.event for step in short.steps if step.event]
    assert sum((event.usage for event in events), Usage()).requests == len(events) * SPENT.requests


async def test_records_are_what_the_optimiser_learns_from() -> None:
    full, short = await record(NoCompression), await record(prompting)
    assert contrasts([full], [short]) == []
    (run,) = successes([full], [short])
    told = run_as_text(run)
    places = [told.index(f"The memory from here on:\n{message['content']}") for message in short.made]
    assert places == sorted(places)
    assert told.count("The memory from here on:") == len(short.made) > 1
