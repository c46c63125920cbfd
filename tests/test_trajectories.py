"""Recorded runs of other people's agents, where they are at hand: `shared/trajectories` beside the repository."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.invariants import violations
from focusctx.pipeline.draft import read_sketch
from focusctx.pipeline.must_stay import companions_of, pinned_spans
from focusctx.pipeline.outline import Parts
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History, Span
from helpers.oracles import check_removed, check_verbatim, in_order, official, same
from helpers.sdk_types import sdk_errors

SHARED = Path(__file__).parents[2] / "shared"
FILES = (
    "swebench_deepseek.jsonl",
    "swebench_gemini-3-pro.jsonl",
    "tau2_gpt-4.1_airline.jsonl",
    "tau2_gpt-4.1_retail.jsonl",
    "tau2_gpt-4.1_telecom.jsonl",
)
SUBSETS = 20
Message = dict[str, Any]

pytestmark = pytest.mark.skipif(not (SHARED / "trajectories").is_dir(), reason=f"no recorded runs at {SHARED}")


def runs(file: str) -> Iterator[dict[str, Any]]:
    with (SHARED / "trajectories" / file).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def as_sent(messages: list[Message]) -> list[Message]:
    """Without what the recorders added: a last message with a role of its own, and an index in each call."""
    sent = [message for message in official(messages) if message["role"] != "exit"]
    for message in sent:
        if "tool_calls" in message:
            calls = [{key: value for key, value in call.items() if key != "index"} for call in message["tool_calls"]]
            message["tool_calls"] = calls
    return sent


def some_spans(history: History, chance: random.Random) -> frozenset[int]:
    share = chance.random()
    chosen = {span.index for span in history.spans if chance.random() < share} | pinned_spans(history, None).keys()
    return frozenset(chosen | companions_of(history, chosen).keys())


@pytest.mark.parametrize("file", FILES)
def test_every_run_splits_and_joins_and_any_of_its_spans_may_go(file: str) -> None:
    for run in runs(file):
        messages, written = run["messages"], json.dumps(run["messages"])
        history = read_history(messages, FocusConfig(), len)
        assert history.format == "chat_completions"
        assert same(rebuild(history, range(1, history.newest + 1)), messages)
        assert sdk_errors(as_sent(messages), "chat_completions") == []
        chance = random.Random(run["id"])
        for _ in range(SUBSETS):
            check_subset(history, messages, some_spans(history, chance))
        assert json.dumps(messages) == written


def check_subset(history: History, messages: list[Message], kept: frozenset[int]) -> None:
    fixed = [message for message, owner in zip(messages, history.owners, strict=True) if owner == 0]
    removed = rebuild(history, kept)
    records = rebuild(history, kept, {span.index: record(history, span) for span in history.spans})
    for rebuilt in (removed, records):
        assert violations(rebuilt, history.format) == []
        assert in_order(fixed, rebuilt), "the user's words and the frame survive"
    check_removed(messages, removed)
    check_verbatim(messages, records)
    # What stayed the same object was found legal above, in the run itself.
    known = {id(message) for message in messages}
    assert sdk_errors(as_sent([message for message in records if id(message) not in known]), history.format) == []
    read_again = read_history(removed, FocusConfig(), len, format=history.format)
    assert read_again.tokens == history.tokens - sum(span.tokens for span in history.spans if span.index not in kept)


def record(history: History, span: Span) -> Parts:
    assert history.outlines is not None
    return history.outlines.of(span).record


@pytest.mark.parametrize("file", FILES)
def test_user_messages_are_read_as_the_run_meant_them(file: str) -> None:
    """In text ReAct a user message is the environment's answer, in a dialogue it is the user's."""
    for run in runs(file):
        history = read_history(run["messages"], FocusConfig(), len)
        for message, owner in zip(history.messages, history.owners, strict=True):
            if message["role"] == "user":
                assert bool(owner) == ("gemini" in file and message["content"].startswith("<returncode>"))


def events() -> Iterator[tuple[dict[str, Any], list[Message]]]:
    """The recorded compression events, each with its history."""
    with (SHARED / "sketches" / "sketches.jsonl").open(encoding="utf-8") as lines:
        recorded = list(map(json.loads, lines))
    messages = {(file, run["id"]): run["messages"] for file in FILES for run in runs(file)}
    for event in recorded:
        yield event, messages[event["file"], event["id"]][: event["messages"]]


def test_recorded_sketches_are_plans_about_the_spans_we_find() -> None:
    replies = 0
    for event, messages in events():
        history = read_history(messages, FocusConfig(), len)
        assert history.newest == event["spans"]
        for reply in event["replies"]:
            sketch = read_sketch(reply, history.newest)
            assert (sketch.problem, sketch.unknown) == (None, ())
            assert sketch.cited | sketch.rescued
            replies += 1
    assert replies == 120


def test_recorded_sketches_compress_their_histories() -> None:
    for event, messages in events():
        paper = Focus(ScriptedDraft(event["replies"]), config=FocusConfig.paper(budget=0, tokens=len)).compress(
            messages
        )
        check_removed(messages, paper.messages)
        size = paper.tokens_before
        result = Focus(ScriptedDraft(event["replies"]), budget=size - 1, target=size // 2, tokens=len).compress(
            messages
        )
        check_verbatim(messages, result.messages)
        assert result.tokens_after <= size // 2 or any("above the target" in warning for warning in result.warnings)
        for made in (paper, result):
            assert made.failure is None
            assert made.compressed
            assert made.tokens_after < made.tokens_before
            assert violations(made.messages, "chat_completions") == []
            assert sdk_errors(as_sent(list(made.messages)), "chat_completions") == []
