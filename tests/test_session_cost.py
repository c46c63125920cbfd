"""The replay behind docs/results/session-cost.md."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from focusctx.prices import Price
from focusctx.replay.walk import CallInput

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "session_cost.py"
CALLS = 20
SYSTEM, TASK, TURN, RESULT = 50, 150, 10, 90
SPAN = TURN + RESULT


@pytest.fixture(scope="module")
def cost() -> ModuleType:
    spec = importlib.util.spec_from_file_location("session_cost", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def message(role: str, number: int, tokens: int) -> dict:
    return {"role": role, "content": f"{role} {number}", "tokens": tokens}


RUN = [message("system", 0, SYSTEM), message("user", 0, TASK)] + [
    part for n in range(CALLS) for part in (message("assistant", n, TURN), message("tool", n, RESULT))
]


def test_a_run_makes_one_call_for_each_turn(cost: ModuleType) -> None:
    turns = cost.turns_of(RUN)
    assert turns == list(range(2, 2 + 2 * CALLS, 2))
    assert cost.fresh_of(turns) == [2] * CALLS
    greeting = [RUN[0], message("assistant", 0, 5), RUN[1], *RUN[2:4]]
    assert cost.turns_of(greeting) == [3], "a greeting before anybody has spoken is no call"


def test_shares_are_of_sums(cost: ModuleType) -> None:
    pairs = [(1.0, 0.5), (3.0, 3.0)]
    assert cost.saved_share(pairs) == pytest.approx(0.125)
    assert cost.interval(pairs) == (0.0, 0.5)


def test_the_sessions_own_ledger_agrees(cost: ModuleType) -> None:
    """Through a real session: a run whose first event drops all it may."""
    spoken = " ".join(f"word{n}" for n in range(60))
    run = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Read all pages."}]
    for n in range(CALLS):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"page": {n}}}'}}
        run += [
            {"role": "assistant", "content": f"Page {n}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} {spoken}"},
        ]
    nothing_needed = "Step: go on | Depends on: []\nRescued Spans: [] | Reason: none"
    case = cost.Case("by hand", "1", run, budget=1000, sketches=(nothing_needed,) * 3)
    assert len(asyncio.run(cost.replay(case, "gpt-5", "kept")).calls) == CALLS
    for outcome in cost.outcomes(case):
        assert abs(outcome.ledger_gap) < 1e-9 * outcome.full
    kept = [outcome for outcome in cost.outcomes(case) if outcome.rule == "kept"]
    assert [outcome.events > 0 for outcome in kept] == [True] * len(cost.MODELS)
    assert max(outcome.longest for outcome in kept) <= 1.35, "a quarter over the budget, and one step"


def test_missing_runs_are_said_in_words(
    cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "SHARED", tmp_path)
    monkeypatch.setattr(sys, "argv", ["session_cost.py", "--quick"])
    assert cost.main() == 2
    assert "missing" in capsys.readouterr().err


def test_an_event_costs_its_draw_and_its_reread(cost: ModuleType) -> None:
    agent, draft = Price(input=2.0, output=8.0, cache_read=0.25, cache_write=1.25), Price(input=0.4, output=1.6)
    early, used, late = cost.Draw(2, 1000, 750), cost.Draw(9, 2000, 750), cost.Draw(15, 500, 750)
    quiet, moved = CallInput(cached=200, again=0, new=SPAN), CallInput(cached=200, again=4 * SPAN, new=SPAN)
    calls = [quiet] * 10 + [moved] + [quiet] * 9
    reread = (1.25 - 0.25) * 4 * SPAN * 2 / 1e6
    costs = cost.event_costs(calls, [early, used, late], agent, draft)
    assert costs == pytest.approx([reread + used.cost(draft), early.cost(draft), late.cost(draft)])
    assert used.cost(draft) == pytest.approx((2000 * 0.4 + 750 * 1.6) / 1e6)
    assert cost.event_costs([quiet] * 20, [], agent, draft) == []


def test_a_message_is_its_texts_and_calls(cost: ModuleType) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    turn = {"role": "assistant", "content": "hm", "reasoning_content": "so", "tool_calls": [call]}
    assert cost.message_size(turn, len) == len("hm" + "so" + 'look({"at": 1})')
    assert cost.message_size({"role": "assistant", "content": None}, len) == 0
