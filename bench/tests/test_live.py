"""Live runs compared, arm by arm."""

import csv
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from focusctx.baselines.rules import Fifo
from focusctx.errors import BenchError
from focusctx_bench.job import BenchFolder, Job
from focusctx_bench.live import (
    Arm,
    LiveRun,
    Pairing,
    PastCall,
    asked_again,
    bootstrapped,
    calls_of,
    difference,
    measure,
    pair,
    read_arms,
    reference_of,
    repeated,
    write,
)
from focusctx_bench.protocols import Options
from focusctx_bench.record import Record
from focusctx_bench.sizes import size
from office.runs import Dropping, full_run, run


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_a_full_history_is_sent_whole_and_nothing_is_done_twice() -> None:
    record = full_run(2)
    found = measure(record, "full")
    assert (found.share, found.prefix_moves, found.deeds_twice, found.lookups_repeated) == (1.0, 0, 0, 0)
    assert found.success == 1
    assert found.steps == len(record.steps)
    assert found.tokens == sum(step.input_tokens for step in record.steps)
    assert found.tokens_per_request == found.tokens / found.steps
    last = record.steps[-1].input_tokens
    rest = found.tokens - last
    assert found.cache_priced == pytest.approx(last + 0.1 * rest), "each token is new once, then cached"


def test_what_is_forgotten_is_looked_up_again() -> None:
    found = [measure(run(number, lambda: Fifo(5)), "fifo") for number in (3, 7)]
    assert all(one.lookups_repeated > 5 for one in found)
    assert all(one.prefix_moves > 10 for one in found)
    assert all(one.share < 0.9 for one in found)


def first_payment(record: Record) -> int:
    """Return the number of the first step that paid something; 0 if none did."""
    step = 0
    for message in record.messages:
        step += message["role"] == "assistant"
        if message["role"] == "tool" and message["content"].startswith("Paid "):
            return step
    return 0


def test_a_forgotten_payment_is_made_twice() -> None:
    payments = {number: first_payment(full_run(number)) for number in range(30)}
    number, paid = next(
        (number, step) for number, step in payments.items() if 0 < step < len(full_run(number).steps) - 3
    )
    record = run(number, lambda: Dropping(lambda step: frozenset({paid}) if step == paid + 2 else frozenset()))
    found = measure(record, "forgets")
    not_wanted = [complaint for complaint in record.score.details["complaints"] if "not wanted" in complaint]
    assert found.deeds_twice == len(not_wanted) == 1, "the office has noticed, too"
    assert found.lookups_repeated == 0


def test_a_moved_prefix_is_read_anew() -> None:
    record = run(2, lambda: Dropping(lambda step: frozenset({2}) if step > 20 else frozenset()))
    found = measure(record, "one event")
    assert found.prefix_moves == 1
    at = record.steps[20]
    kept = size(record.sent(at)[:4])
    everything_cached = measure(full_run(2), "full").cache_priced
    assert found.cache_priced > everything_cached * 0.9
    assert kept < at.input_tokens


def test_a_look_up_counts_only_when_its_result_was_cut() -> None:
    record = full_run(2)
    turn = next(step for step in record.steps if record.messages[step.reply].get("tool_calls"))
    call, result = record.messages[turn.reply], record.messages[turn.reply + 1]
    assert call["tool_calls"][0]["function"]["name"] in ("notes_read", "help_read", "desk_approval")
    again = {**call, "tool_calls": [{**call["tool_calls"][0], "id": "again"}]}
    reading = {**again["tool_calls"][0]["function"], "name": "notes_read"}
    first = {**call, "tool_calls": [{**call["tool_calls"][0], "function": reading}]}
    again["tool_calls"][0]["function"] = reading
    messages = (*record.messages[:2], first, {**result, "content": "text"}, again, {**result, "tool_call_id": "again"})
    steps = (replace(turn, sent=((0, 2),), reply=2), replace(turn, sent=((0, 4),), reply=4))
    seen = replace(record, messages=messages, steps=steps, made=())
    assert measure(seen, "x").lookups_repeated == 0
    cut = replace(seen, steps=(steps[0], replace(steps[1], sent=((0, 3),))))
    assert measure(cut, "x").lookups_repeated == 1


def test_tokens_through_a_proxy_are_the_proxys() -> None:
    record = full_run(2)
    steps = tuple(replace(step, input_tokens=min(step.input_tokens, 3000)) for step in record.steps)
    event = next(number for number, step in enumerate(record.steps, 1) if step.input_tokens > 3000)
    log = [{"happened": True, "request": event}, {"happened": False, "request": 3}]
    draft = {"requests": 3, "input": 900, "output": 100}
    found = measure(replace(record, steps=steps, proxy={"log": log, "draft": draft}), "proxy")
    assert (found.prefix_moves, found.draft_tokens) == (1, 1000)
    assert found.share < 1
    unmoved = measure(replace(record, steps=steps, proxy={"log": [], "draft": draft}), "proxy")
    assert found.cache_priced > unmoved.cache_priced


def test_questions_that_were_answered() -> None:
    zip_code = "Could you give me your full name and zip code?"
    talk = [user("Hi"), says(zip_code), user("Ada Cole, 12345"), says("And what is your full name and zip code?")]
    assert asked_again(talk) == 1
    assert asked_again(talk[:3]) == 0
    assert asked_again([user("Hi"), says(zip_code), says(zip_code)]) == 0, "nobody has answered"
    confirm = "Would you like me to proceed with the exchange of the lamp?"
    assert asked_again([user("Hi"), says(confirm), user("yes"), says(confirm)]) == 0
    other = "Which payment method should the refund go to?"
    assert asked_again([user("Hi"), says(zip_code), user("Ada"), says(other)]) == 0


def arm(name: str, successes: str, tokens: Callable[[int], float] = lambda number: 100.0 + number) -> Arm:
    blank = measure(full_run(0), name)
    runs = {
        f"t{number}": replace(blank, task=f"t{number}", success=float(char), tokens_per_request=tokens(number))
        for number, char in enumerate(successes)
        if char != "-"
    }
    return Arm(name, "office", runs)


def test_arms_are_paired_by_task() -> None:
    full, other = arm("full", "1111110"), arm("focus", "110-011", lambda number: 60.0 + number)
    assert pair(other, full) == Pairing(tasks=6, won=1, lost=2)
    assert pair(other, full).p == pytest.approx(stats.binomtest(1, 3).pvalue)
    assert difference(other, full, "tokens_per_request") == (-40.0, -40.0, -40.0)
    with pytest.raises(BenchError, match="no task in common"):
        difference(arm("a", "1-"), arm("b", "-1"), "steps")


def test_intervals() -> None:
    assert arm("a", "111111111111").success.low == pytest.approx(0.757, abs=0.01)
    assert arm("a", "10").success.mean == 0.5
    chance = random.Random(1)
    values = [chance.gauss(3, 1) for _ in range(60)]
    found = bootstrapped(values)
    assert found.low < found.mean < found.high
    assert found.high - found.low == pytest.approx(4 * stats.sem(values), rel=0.15)
    assert found == bootstrapped(values), "the same every time"


def test_the_reference_is_the_full_history_unless_another_is_named() -> None:
    arms = [arm("focus", "1"), arm("full", "1")]
    assert reference_of(arms, None).name == "full"
    assert reference_of(arms, "focus").name == "focus"
    with pytest.raises(BenchError, match="no arm 'x'; arms: focus, full"):
        reference_of(arms, "x")


def folder_of(path: Path, records: list[Record]) -> str:
    folder = BenchFolder(path)
    job = Job(benchmarks={"office": Options()}, methods=("none",))
    with folder.locked():
        folder.begin(job, {"office": []})
        folder.records.add(*records)
    return str(path)


def test_the_whole_way_from_folders_to_files(tmp_path: Path) -> None:
    numbers = (0, 1, 3)
    full = folder_of(tmp_path / "a", [full_run(number).made_by("none", {}) for number in numbers])
    fifo = folder_of(tmp_path / "b", [run(number, lambda: Fifo(5)).made_by("fifo", {}) for number in numbers])
    arms = read_arms([f"full={full}", fifo])
    assert [(one.name, len(one.runs)) for one in arms] == [("full", 3), ("fifo", 3)]
    files = write(arms, tmp_path / "out")
    assert {path.name for path in files} == {"table.md", "runs.csv", "runs.jsonl", "office.svg", "office.png"}
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| full | 3 of 3 [" in table
    assert "| fifo |" in table
    assert "Difference to full" in table
    rows = list(csv.DictReader((tmp_path / "out" / "runs.csv").read_text().splitlines()))
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert [row["task"] for row in rows] == [line["task"] for line in lines]
    assert [LiveRun(**line) for line in lines] == [found for one in arms for found in one.runs.values()]
    with pytest.raises(BenchError, match="two runs of office-42-0000 under 'none'"):
        read_arms([full, full])


def test_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no finished run"):
        read_arms([folder_of(tmp_path / "a", [])])
    with pytest.raises(BenchError, match="is not a folder"):
        read_arms([str(tmp_path / "none")])


def test_the_command(focusctx: Any, tmp_path: Path) -> None:
    full = folder_of(tmp_path / "a", [full_run(0).made_by("none", {})])
    code, out, _ = focusctx("bench", "live", f"full={full}", "--out", tmp_path / "out")
    assert code == 0
    assert Path(out.splitlines()[0]).read_text().startswith("# Live runs")


def turn(number: int, name: str, arguments: dict[str, Any], result: str | None = "done") -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    answer = [] if result is None else [{"role": "tool", "tool_call_id": f"c{number}", "content": result}]
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, *answer]


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("mail_read", True), ("mail_list", True), ("mail_sent", True), ("mail_send", False), ("login", True),
        ("get_order_details", True), ("find_user_id_by_email", True), ("cancel_pending_order", False),
        ("modify_user_address", False), ("desk_approval", False), ("files_write", False), ("searchWeb", True),
        ("updateList", False), ("frobnicate", False), ("transfer_to_human_agents", False), ("calendar_add", False),
    ],
)  # fmt: skip
def test_a_tool_reads_if_its_name_says_so(name: str, is_read: bool) -> None:
    assert PastCall(0, name, "{}", None).is_read == is_read


def test_a_call_is_repeated_if_it_had_succeeded_with_equal_arguments() -> None:
    messages = [
        *turn(1, "pay", {"to": "a", "amount": 1}),
        *turn(2, "pay", {"amount": 1, "to": "a"}),
        *turn(3, "pay", {"to": "a", "amount": 2}),
    ]
    assert [(again.turn, [one.turn for one in before]) for again, before in repeated(calls_of(messages))] == [(2, [0])]


@pytest.mark.parametrize(
    "failure", ["Error: no token.", '{"error": "no such order"}', "Traceback (most recent call last)"]
)
def test_trying_again_after_a_failure_is_no_repetition(failure: str) -> None:
    messages = [*turn(1, "pay", {}, failure), *turn(2, "pay", {}), *turn(3, "pay", {}, failure)]
    assert [again.turn for again, _ in repeated(calls_of(messages))] == [4], "also if the repetition failed"


def test_a_call_without_a_result_did_not_succeed() -> None:
    assert not calls_of(turn(1, "pay", {}, None))[0].succeeded
    assert calls_of([{"role": "user", "content": "x"}, *turn(1, "pay", {})])[0].succeeded
