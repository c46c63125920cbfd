"""What holds for every method, over any history an agent can have."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_helpers.answers import SPENT, Scripted, every_third_word
from focusctx.baselines.embedders import embedder_from
from focusctx.baselines.focus import DefaultFocus, FocusMethod, Matched, at_random, newest_first
from focusctx.baselines.method import Compressed, Method
from focusctx.baselines.rules import ClearToolUses, Fifo, Masking, NoCompression, Retrieval
from focusctx.config import FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.errors import DraftUnavailable
from focusctx.invariants import violations
from focusctx.pipeline.split import read_history
from focusctx.types import History, Message
from focusctx.wire.part import PLACEHOLDER
from focusctx_bench.baselines.plan_note import PlanNote
from focusctx_bench.baselines.registry import KNOWN
from focusctx_bench.baselines.summary import HEADING, START, Acon, LLMLingua, Prompting, RunningSummary
from helpers.oracles import is_less_of
from helpers.thorough import examples
from strategies import HISTORIES

FORMAT = "chat_completions"
DOWN = DraftUnavailable("the server is down")
PLANS = [
    "Step: go on | Depends on: [s_1]\nRescued Spans: [s_2] | Reason: it failed",
    "no plan",
    "Step: end | Depends on: []",
]


def flaky(texts: Sequence[str]) -> list[list[float]]:
    raise DOWN


METHODS: dict[str, Callable[[], Method]] = {
    "none": NoCompression,
    "fifo": lambda: Fifo(turns=2),
    "retrieval": lambda: Retrieval(embedder_from("words"), budget=0, top=2),
    "retrieval, embedder down": lambda: Retrieval(embedder_from(flaky), budget=0, top=2),
    "llmlingua": lambda: LLMLingua(every_third_word, budget=20),
    "prompting": lambda: Prompting(Scripted("All went well.", "Still going."), budget=20),
    "prompting, sometimes down": lambda: Prompting(Scripted("All went well.", DOWN, ""), budget=0),
    "masking-10": lambda: Masking(10),
    "masking-5": lambda: Masking(5),
    "masking-3": lambda: Masking(3),
    "masking-1": lambda: Masking(1),
    "acon-ut": lambda: Acon(Scripted("Completed: all."), START, budget=5),
    "acon-utco": lambda: Acon(Scripted("done"), "Be brief.", budget=0, name="acon-utco"),
    "focus-o": lambda: FocusMethod("offline", budget=20, defensive=False),
    "focus-d": lambda: FocusMethod(ScriptedDraft(PLANS), budget=0),
    "focus": lambda: DefaultFocus("offline", budget=20),
    "focus, sketches": lambda: DefaultFocus(ScriptedDraft(PLANS), budget=0, settings={"ahead": 1.0}),
    "focus-note": lambda: PlanNote(DefaultFocus(ScriptedDraft(PLANS), budget=0, settings={"ahead": 1.0})),
    "random": lambda: Matched("random", FocusMethod("offline", budget=20), at_random()),
    "newest": lambda: Matched("newest", FocusMethod("offline", budget=20), newest_first),
    "newest, sometimes down": lambda: Matched("newest", FocusMethod(ScriptedDraft([*PLANS, DOWN]), 0), newest_first),
    "retrieval-matched": lambda: Matched(
        "retrieval-matched", FocusMethod("offline", budget=20), Retrieval(embedder_from("words")).rank
    ),
    "clear-tool-uses": lambda: ClearToolUses(20, keep=1, placeholder=PLACEHOLDER),
    "summary": lambda: RunningSummary(Scripted("## Done\nAll.", "## Open\nNothing."), budget=20),
    "focus-d, sometimes down": lambda: FocusMethod(ScriptedDraft([*PLANS, DOWN]), budget=0),
}


def test_every_method_is_among_them() -> None:
    assert set(KNOWN) <= set(METHODS)
    assert all(METHODS[name]().name == name.partition(",")[0] for name in METHODS)


def steps_of(messages: list[Message]) -> list[list[Message]]:
    """The history as an agent would show it, step by step: every beginning of it that a provider would take."""
    return [messages[:end] for end in range(1, len(messages) + 1) if not violations(messages[:end], FORMAT)]


def read(messages: Sequence[Message]) -> History:
    return read_history(messages, FocusConfig(), len, format=FORMAT)


async def follow(make: Callable[[], Method], steps: list[list[Message]]) -> list[Compressed]:
    method = make()
    return [await method.compress(list(step)) for step in steps]


def is_made(message: Message, history: Sequence[Message]) -> bool:
    """A summary that says what it is, or a tool's or the environment's answer, cut or with the placeholder in it."""
    if message["role"] == "user" and str(message["content"]).startswith(HEADING):
        return True
    changed = [original for original in history if {**message, "content": ...} == {**original, "content": ...}]
    if any(message["content"] == PLACEHOLDER for _ in changed):
        return True
    return any(is_less_of(original, message) for original in history)


def position(message: Message, history: Sequence[Message]) -> int | None:
    return next((place for place, original in enumerate(history) if original is message), None)


@pytest.mark.parametrize("name", METHODS)
@given(st.one_of(HISTORIES["chat_completions"], HISTORIES["react"]))
@settings(max_examples=examples(40))
async def test_what_is_sent_is_legal_and_keeps_the_users_words(name: str, messages: list[Message]) -> None:
    steps = steps_of(messages)
    for history, compressed in zip(steps, await follow(METHODS[name], steps), strict=True):
        sent = list(compressed.messages)
        assert violations(sent, FORMAT) == []
        places = [place for message in sent if (place := position(message, history)) is not None]
        assert places == sorted(set(places)), "originals stand in their order, each once"
        assert all(position(message, history) is not None or is_made(message, history) for message in sent)
        owners = read(history).owners
        newest = read(history).newest
        always = {place for place, owner in enumerate(owners) if owner in (0, newest)}
        assert always <= set(places), "system prompts, the user's words and the newest turn"


@pytest.mark.parametrize("name", METHODS)
@given(HISTORIES["chat_completions"])
@settings(max_examples=examples(40))
async def test_an_event_is_a_step_that_sends_less_of_what_was_sent(name: str, messages: list[Message]) -> None:
    steps = steps_of(messages)
    known, before = 0, list[Any]()
    for history, compressed in zip(steps, await follow(METHODS[name], steps), strict=True):
        sent = list(compressed.messages)
        expected = [*before, *history[known:]]
        for message in sent:
            if message in expected:
                expected.remove(message)
        assert compressed.happened == bool(expected)
        assert not (compressed.happened and compressed.failure)
        if compressed.failure:
            assert sent == [*before, *history[known:]], "the last view goes on"
        known, before = len(history), sent


@pytest.mark.parametrize("name", METHODS)
@given(HISTORIES["chat_completions"])
@settings(max_examples=examples(15))
async def test_same_answers_same_messages(name: str, messages: list[Message]) -> None:
    steps = steps_of(messages)
    first, second = await follow(METHODS[name], steps), await follow(METHODS[name], steps)
    assert [(each.messages, each.happened) for each in first] == [(each.messages, each.happened) for each in second]


@given(HISTORIES["chat_completions"])
@settings(max_examples=examples(40))
async def test_usage_is_that_of_the_questions_asked(messages: list[Message]) -> None:
    ask = Scripted("All went well.", "")
    steps = steps_of(messages)
    compressed = await follow(lambda: Prompting(ask, budget=0), steps)
    assert sum(each.usage.requests for each in compressed) == len(ask.asked)
    assert sum(each.usage.input_tokens for each in compressed) == SPENT.input_tokens * len(ask.asked)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"none"}))
async def test_a_history_the_provider_would_refuse_passes_through(name: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Message] = [{"role": "user", "content": "Do it."}]
    unanswered = {"role": "assistant", "content": "word " * 200, "tool_calls": [call]}
    messages += [unanswered, {"role": "user", "content": "?"}] * 5
    compressed = await METHODS[name]().compress(messages)
    assert list(compressed.messages) == messages
    assert compressed.failure is not None
    assert "refuse" in compressed.failure
