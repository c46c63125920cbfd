"""A walk under a method, step by step; all runs under all methods; and what the calls cost."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.baselines.method import Compressed
from focusctx.baselines.rules import NoCompression
from focusctx.errors import BenchError
from focusctx.jobs.runner import Tally
from focusctx.pipeline.rebuild import rebuild
from focusctx.prices import Price
from focusctx.replay.facts import Evidence
from focusctx.replay.job import Plan
from focusctx.replay.methods import Methods, ReplaySettings
from focusctx.replay.record import ReplayFolder, RunRecord, run_records
from focusctx.replay.runs import Run, count
from focusctx.replay.walk import CallInput, Walker, calls_of, common_prefix, walk_all
from focusctx.types import Message
from replay.logs import SHOPPING, long_run, run_of, write
from strategies import COMPLETE_HISTORIES, format_of

PRICE = Price(input=2.0, output=8.0, cache_read=0.25)


class Views:
    """A method that sends what a function makes of the history."""

    name = "views"

    def __init__(self, view: Callable[[Sequence[Message]], Sequence[Message]]) -> None:
        self._view = view

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        view = self._view(messages)
        return Compressed(view, happened=len(view) < len(messages))


async def walked(run: Run, view: Callable[[Sequence[Message]], Sequence[Message]], budget: int = 0) -> RunRecord:
    return await Walker(Evidence(run), budget, PRICE).walk(Views(view))


async def test_nothing_is_missing_where_everything_is_sent() -> None:
    whole = await walked(run_of(SHOPPING), lambda messages: messages)
    assert [(step.needed, step.there) for step in whole.steps] == [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]
    assert all(step.span_left == step.span_tokens for step in whole.steps)
    assert all(step.sent_tokens == step.history_tokens for step in whole.steps)
    assert [step.repeated for step in whole.steps] == [False, False, False, True, False, False]
    assert not any(step.forgotten for step in whole.steps)
    assert (whole.events, whole.failures, whole.words_lost) == (0, 0, 0)
    assert whole.peak == whole.steps[-1].history_tokens


async def test_without_the_first_two_spans() -> None:
    """From the third action on: items and account are gone, and so is the failure that span 4 repeats."""
    cut = await walked(run_of(SHOPPING), lambda messages: [*messages[:2], *messages[6:]])
    assert [(step.needed, step.there) for step in cut.steps] == [(0, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 1)]
    assert [step.forgotten for step in cut.steps] == [False, False, False, True, False, False]
    spans = Evidence(run_of(SHOPPING)).history.spans
    assert [step.span_left for step in cut.steps][2:5] == [
        0,
        spans[2].tokens,
        spans[2].tokens + spans[3].tokens,
    ]
    assert cut.words_lost == 0
    assert cut.events == 5


async def test_only_steps_over_the_budget_are_due() -> None:
    whole = await walked(run_of(SHOPPING), lambda messages: messages, budget=100)
    assert [step.due for step in whole.steps] == [step.history_tokens > 100 for step in whole.steps]
    assert {step.due for step in whole.steps} == {True, False}


async def test_lost_words_are_noticed() -> None:
    without_task = await walked(run_of(SHOPPING), lambda messages: [messages[0], *messages[2:]])
    assert without_task.words_lost == 1
    rewritten = await walked(
        run_of(SHOPPING), lambda messages: [{"role": "system", "content": "Shop rules."}, *messages[1:]]
    )
    assert rewritten.words_lost == 1


async def test_money_with_and_without_a_cache() -> None:
    run = run_of(SHOPPING)
    whole = await walked(run, lambda messages: messages)
    actions = Evidence(run).actions
    system = count("Shop rules: policy_v2.")
    sizes = [step.history_tokens + system for step in whole.steps]
    output = 8 * sum(action.output_tokens for action in actions)
    assert whole.cost == pytest.approx((2 * sum(sizes) + output) / 1e6)
    new = [sizes[0] - system, *(after - before for before, after in pairwise(sizes))]
    cached = [size - fresh for size, fresh in zip(sizes, new, strict=True)]
    assert whole.cost_cached == pytest.approx((2 * (sum(new) + 0.25 * sum(cached)) + output) / 1e6)
    n_o = [action.output_tokens for action in actions]
    paper = sum((step.sent_tokens + 2 * o) * o / 2 for step, o in zip(whole.steps, n_o, strict=True))
    assert whole.dependency == paper


async def test_focus_compresses_again_and_again() -> None:
    run = long_run(40)
    settings = ReplaySettings(methods=("focus-d", "focus"))
    for name in settings.methods:
        walk = await Walker(Evidence(run), 600, None).walk(Methods(settings).make(name, run, 600))
        assert walk.events > 1
        assert walk.failures == walk.words_lost == 0
        assert walk.cost is None
        late = walk.steps[-1]
        assert late.span_left < 0.8 * late.span_tokens


# ----------------------------------------------------------------------------------------------- any history


@pytest.mark.parametrize("kind", COMPLETE_HISTORIES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_tokens_and_words_of_any_view_add_up(kind: str, data: st.DataObject) -> None:
    """Whichever spans go, the rest is measured as the splitter measures it, and no word of the user is missed."""
    messages: list[dict[str, Any]] = data.draw(COMPLETE_HISTORIES[kind])
    run = Run("made.jsonl", "1", tuple(messages), format_of(kind))
    evidence = Evidence(run)
    gone = data.draw(st.sets(st.sampled_from([span.index for span in evidence.history.spans] or [0])))

    def view(given: Sequence[Message]) -> Sequence[Message]:
        history = run.history(len(given))
        return rebuild(history, [span.index for span in history.spans if span.index not in gone])

    full = asyncio.run(Walker(evidence, 0, None).walk(NoCompression()))
    part = asyncio.run(Walker(evidence, 0, None).walk(Views(view)))
    assert full.words_lost == part.words_lost == 0
    for step, other in zip(full.steps, part.steps, strict=True):
        history = run.history(next(one.messages for one in evidence.actions if one.span == step.step))
        assert step.there == step.needed
        assert step.span_left == step.span_tokens == sum(span.tokens for span in history.spans)
        assert step.sent_tokens == step.history_tokens == history.tokens
        assert other.there <= other.needed == step.needed
        assert other.span_left == sum(span.tokens for span in history.spans if span.index not in gone)


RUNS = [long_run(14, "a"), long_run(20, "b"), run_of(SHOPPING, "c")]
SETTINGS = ReplaySettings(methods=("none", "masking-3", "focus-d"))
PLAN = Plan(SETTINGS, RUNS, {"log.jsonl": 300}, jobs=1)
COMPARED = ("fifo@focus-d", "retrieval@focus-d", "masking@focus-d")


def unwatched(tally: Tally) -> None:
    pass


def timeless(records: Sequence[Any]) -> list[Any]:
    return sorted((replace(record, seconds=0.0) for record in records), key=lambda record: record.key)


def test_every_method_and_its_comparators(tmp_path: Path) -> None:
    file = run_records(tmp_path)
    tally = walk_all(PLAN, file, unwatched)
    assert tally.done == {"log.jsonl": 3, "log.jsonl, matched": 3}
    assert not any(tally.failed.values())
    records = list(file)
    assert [record.method for record in records] == 3 * ["none", "masking-3", "focus-d"] + 3 * list(COMPARED)
    by_method = {record.method: record for record in records if record.run == "b"}
    assert by_method["none"].recall == by_method["none"].span_share == 1
    ours = by_method["focus-d"]
    assert ours.events
    assert ours.draft == by_method["fifo@focus-d"].draft == "offline"
    assert by_method["none"].draft == by_method["masking-3"].draft == ""
    sizes = [0, *(step.span_tokens for step in ours.steps)]
    largest = max(later - earlier for earlier, later in pairwise(sizes))
    for name in COMPARED:
        more = [step.span_left - own.span_left for step, own in zip(by_method[name].steps, ours.steps, strict=True)]
        assert min(more) >= -largest
        assert max(more) <= largest or name.startswith("masking")
    assert not any(record.words_lost for record in records)


def test_several_processes_find_the_same(tmp_path: Path) -> None:
    alone, several = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, alone, unwatched)
    walk_all(replace(PLAN, jobs=2), several, unwatched)
    assert timeless(list(alone)) == timeless(list(several))


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    records = run_records(tmp_path)
    walk_all(replace(PLAN, runs=RUNS[:1]), records, unwatched)
    first = records.path.read_text()
    tally = walk_all(PLAN, records, unwatched)
    assert tally.before == {"log.jsonl": 1, "log.jsonl, matched": 0}
    assert tally.done == {"log.jsonl": 2, "log.jsonl, matched": 2}
    assert records.path.read_text().startswith(first)
    more = replace(PLAN, settings=replace(SETTINGS, methods=("none", "fifo")))
    walk_all(more, records, unwatched)
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys)) == 3 * (2 + len(COMPARED) + 1 + 1)


def test_comparators_can_come_later(tmp_path: Path) -> None:
    at_once, later = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, at_once, unwatched)
    walk_all(replace(PLAN, settings=replace(SETTINGS, matched=False)), later, unwatched)
    assert not any("@" in record.method for record in later)
    tally = walk_all(PLAN, later, unwatched)
    assert tally.done == {"log.jsonl": 0, "log.jsonl, matched": 3}
    assert timeless(list(later)) == timeless(list(at_once))


def test_data_that_changed_is_refused(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "out")
    folder.begin(RUNS, ["replay", "run"])
    folder.begin(RUNS[:1], ["replay", "points"])
    folder.begin(RUNS, ["replay", "run"])
    assert (tmp_path / "out" / "replay.json").read_text().count('"replay"') == 2
    with pytest.raises(BenchError, match="run 'a' has changed"):
        folder.begin([long_run(15, "a")], ["replay", "run"])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_killed_replay_leaves_no_process_and_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle: its workers end by themselves, and the same command does the rest."""
    write(tmp_path / "log.jsonl", *(long_run(50, f"run {number}") for number in range(8)))
    command = [
        sys.executable, "-m", "focusctx", "replay", "run", str(tmp_path / "log.jsonl"), "--budget", "500",
        "--methods", "none", "focus-d", "--jobs", "2", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    records = run_records(tmp_path / "out")
    deadline = time.monotonic() + 60
    while not records.path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = _children(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while any(_is_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [worker for worker in workers if _is_alive(worker)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys))
    assert sum(record.method == "focus-d" for record in records) == 8


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(above) == parent and state != "Z":
            found.append(int(path.parent.name))
    return found


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.skipif(find_spec("ray") is None, reason="needs focusctx-bench[ray]")
def test_ray_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", "local")
    alone, cluster = run_records(tmp_path / "1"), run_records(tmp_path / "2")
    walk_all(PLAN, alone, unwatched)
    walk_all(replace(PLAN, engine="ray"), cluster, unwatched)
    assert timeless(list(alone)) == timeless(list(cluster))


CALLS = 20
SYSTEM, TASK, TURN, RESULT = 50, 150, 10, 90
SPAN = TURN + RESULT
AGENT = Price(input=2.0, output=8.0, cache_read=0.25, cache_write=1.25)


def message(role: str, number: int, tokens: int) -> dict[str, Any]:
    return {"role": role, "content": f"{role} {number}", "tokens": tokens}


RUN = [message("system", 0, SYSTEM), message("user", 0, TASK)] + [
    part for n in range(CALLS) for part in (message("assistant", n, TURN), message("tool", n, RESULT))
]
TURNS = range(2, 2 + 2 * CALLS, 2)


def size(part: Message) -> int:
    return int(part["tokens"])


def whole() -> list[CallInput]:
    return calls_of([RUN[:turn] for turn in TURNS], [2] * CALLS, size)


def compressed() -> list[CallInput]:
    """At the eleventh call the first five of ten spans go: ten messages from the third on."""
    views = [RUN[:turn] if number < 10 else RUN[:2] + RUN[12:turn] for number, turn in enumerate(TURNS)]
    return calls_of(views, [2] * CALLS, size)


def test_the_uncompressed_run_reads_the_past_and_writes_the_new() -> None:
    calls = whole()
    assert [call.again for call in calls] == [0] * CALLS
    assert [call.new for call in calls] == [TASK] + [SPAN] * (CALLS - 1)
    assert [call.cached for call in calls] == [SYSTEM] + [SYSTEM + TASK + SPAN * n for n in range(CALLS - 1)]
    read = SYSTEM + (CALLS - 1) * (SYSTEM + TASK) + SPAN * sum(range(CALLS - 1))
    written = TASK + (CALLS - 1) * SPAN
    dollars = (0.25 * read + 1.25 * written) * 2 / 1e6
    assert sum(call.cost(AGENT) for call in calls) == pytest.approx(dollars)


def test_a_moved_prefix_is_written_again_once() -> None:
    full, calls = whole(), compressed()
    assert calls[:10] == full[:10]
    moved = calls[10]
    assert (moved.cached, moved.again, moved.new) == (SYSTEM + TASK, 4 * SPAN, SPAN)
    assert [call.again for call in calls[11:]] == [0] * 9
    assert [call.tokens for call in calls[10:]] == [call.tokens - 5 * SPAN for call in full[10:]]
    # Ten calls are without 500 tokens each, at the read price; 400 tokens cost the difference once.
    saved = sum(call.cost(AGENT) for call in full) - sum(call.cost(AGENT) for call in calls)
    assert saved == pytest.approx((10 * 0.25 * 5 * SPAN - (1.25 - 0.25) * 4 * SPAN) * 2 / 1e6)


def test_equal_messages_are_the_same_to_a_cache() -> None:
    copies = [dict(part) for part in RUN]
    assert common_prefix(RUN, copies) == len(RUN)
    assert common_prefix(RUN, [*copies[:3], message("user", 1, 1)]) == 3
    assert common_prefix([], RUN) == 0
