"""Focus over histories and sketches of every kind: whatever comes in, what goes out is safe to send."""

import copy
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from focusctx import DraftError, Focus, FocusConfig, History, MessageError, Result
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.keep import survey
from focusctx.pipeline.must_stay import companions_of
from focusctx.pipeline.split import read_history
from focusctx.types import Unit
from helpers.oracles import block_type, blocks, check, check_removed, check_verbatim, open_calls
from helpers.thorough import examples
from strategies import COMPLETE_HISTORIES, HISTORIES, Json, damaged_histories, format_of, json_lists, json_values, texts

PLAN = "Step: finish | Depends on: []"


def compress(messages: Any, *replies: Any, format: str | None = None, **settings: Any) -> Result:
    draft = ScriptedDraft(replies or [PLAN])
    return Focus(draft, **{"budget": 0, "tokens": len, **settings}).compress(messages, format=format)


# ------------------------------------------------------------------------------------------------ legal histories

ids = st.lists(
    st.integers(0, 8).map("s_{}".format) | st.builds("s_{}.{}".format, st.integers(1, 8), st.integers(0, 9)), max_size=3
).map(", ".join)
noise = texts | st.text(max_size=20)
lines = st.one_of(
    st.builds("Step: {} | Depends on: [{}]".format, texts, ids),
    st.builds("{}. **{}** (Depends on: {})".format, st.integers(1, 9), texts, ids),
    st.builds("Rescued Spans: [{}] | Reason: {}".format, ids, texts),
    noise,
)
plans = st.builds("Step: go | Depends on: [{}]\n{}".format, ids, st.lists(lines, max_size=3).map("\n".join))
# Two plans of three are needed, so most replies are plans.
replies = st.sampled_from([*[plans] * 8, st.lists(noise).map("\n".join), st.just(DraftError("no"))]).flatmap(
    lambda kind: kind
)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(150))
@given(data=st.data(), said=st.lists(replies, min_size=3, max_size=3))
def test_whole_steps_that_go_leave_a_legal_history_whatever_the_sketches_say(
    kind: str, data: st.DataObject, said: list[Any]
) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    result = compress(messages, *said, levels=False, target=None)
    assert messages == before
    assert sorted((*result.kept, *result.dropped)) == list(range(1, len(result.kept) + len(result.dropped) + 1))
    assert set(result.pinned) <= set(result.kept)
    assert result.compressed == bool(result.dropped)
    assert not result.shortened
    if not result.compressed:
        assert result.messages is messages
        return
    check(messages, result.messages, format_of(kind))
    check_removed(messages, result.messages)
    assert result.tokens_after == tokens(result.messages, result.history)
    cited = {index for sketch in result.sketches if not sketch.problem for index in sketch.cited | sketch.rescued}
    assert cited <= set(result.kept), "with three sketches, one that names a span is enough"


switches = st.fixed_dictionaries(
    {
        "threshold": st.sampled_from([0.3, 0.6]),
        "target": st.none() | st.sampled_from([0.3, 0.5, 1.0]) | st.integers(2, 3000),
        "levels": st.sampled_from([True, True, True, False]),
        "defensive": st.booleans(),
        "reads": st.sampled_from([(), ("look", "write_file", "sql", "bash")]),
    }
)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
@given(data=st.data(), said=st.lists(replies, min_size=3, max_size=5), chosen=switches)
def test_steps_in_part_leave_a_legal_history_of_the_same_words_within_the_target(
    kind: str, data: st.DataObject, said: list[Any], chosen: dict[str, Any]
) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    budget = max(read_history(messages, FocusConfig(), len).tokens - 1, 0)
    result = compress(messages, *said, budget=budget, rollouts=len(said), **chosen)
    assert messages == before
    assert "would be refused" not in (result.failure or "")
    fates = {decision.index: decision.fate for decision in result.decisions}
    assert {index for index, fate in fates.items() if fate in ("record", "excerpt")} == set(result.shortened)
    assert {index for index, fate in fates.items() if fate == "excerpt"} == {
        index for index, parts in result.shortened.items() if parts
    }
    assert [index for index, fate in fates.items() if fate == "dropped"] == list(result.dropped)
    assert set(result.pinned) <= set(result.kept)
    assert Result.from_json(result.to_json()) == result
    if not result.compressed:
        assert result.messages is messages
        return
    check(messages, result.messages, format_of(kind))
    check_verbatim(messages, result.messages)
    assert result.tokens_after == tokens(result.messages, result.history)
    if result.target is not None and result.tokens_after > result.target:
        assert any("above the target" in warning for warning in result.warnings)
        check_no_more_could_go(result, budget, chosen)


def check_no_more_could_go(result: Result, budget: int, chosen: dict[str, Any]) -> None:
    """Above the target there is only what may never go, and a quarter of the rest where that alone is above it."""
    history = result.history
    assert history is not None
    assert result.target is not None
    seen = survey(history, FocusConfig(budget=budget, **chosen))
    assert seen is not None
    loose = [span for span in history.spans if span.index not in result.pinned]
    fixed = history.tokens - sum(span.tokens for span in loose)
    costs: dict[Unit, int] = {}
    for span in loose:
        outline = seen.outlines.of(span)
        costs[span.index, 0] = outline.record_tokens
        costs |= {(span.index, one.number): one.tokens + one.extra for one in outline.passages}
    required = {unit for index, number in seen.required for unit in ((index, 0), (index, number))} & costs.keys()
    required |= {(index, 0) for index in companions_of(history, {*result.pinned, *(index for index, _ in required)})}
    shown = {unit for unit in costs if unit[0] in result.kept or _is_shown(unit, result)}
    if shown <= required:
        return
    must = fixed + sum(costs[unit] for unit in required)
    rest = sum(cost for unit, cost in costs.items() if unit not in required)
    allowed = must + max(min(rest / 4, budget - must), 0) if must > result.target else result.target
    if fixed > result.target:
        allowed = max(allowed, fixed + max(min(sum(costs.values()) / 4, budget - fixed), 0))
    assert result.tokens_after <= allowed


def _is_shown(unit: Unit, result: Result) -> bool:
    index, number = unit
    return index in result.shortened and (not number or number in result.shortened[index])


def tokens(messages: Sequence[Json], history: History | None) -> int:
    assert history is not None
    return read_history(messages, FocusConfig(), len, format=history.format).tokens


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=50)
@given(data=st.data(), said=st.lists(replies, min_size=3, max_size=3))
def test_same_input_and_same_replies_give_the_same_output(kind: str, data: st.DataObject, said: list[Any]) -> None:
    messages = data.draw(HISTORIES[kind])
    first, second = (compress(messages, *said) for _ in range(2))
    assert replace(first, latency=0) == replace(second, latency=0)
    assert json.dumps(first.messages) == json.dumps(second.messages)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=50)
@given(data=st.data())
def test_a_growing_conversation_is_compressed_like_a_fresh_one(kind: str, data: st.DataObject) -> None:
    """What `Focus` remembers of a conversation may make it faster, never different."""
    messages = data.draw(HISTORIES[kind])
    focus = Focus(ScriptedDraft([PLAN]), budget=0, tokens=len)
    for length in sorted(data.draw(st.sets(st.integers(0, len(messages)), max_size=4))):
        result = focus.compress(messages[:length])
        assert replace(result, latency=0) == replace(compress(messages[:length]), latency=0)


# ---------------------------------------------------------------------------------------------- illegal histories

USER = {"role": "user", "content": "and then?"}
BEFORE_AND_AFTER: dict[str, tuple[list[Json], list[Json]]] = {
    "chat_completions": ([], [USER, {"role": "assistant", "content": "ok"}]),
    "responses": (
        [
            USER,
            {"type": "function_call", "call_id": "first", "name": "look", "arguments": ""},
            {"type": "function_call_output", "call_id": "first", "output": "x"},
        ],
        [USER, {"role": "assistant", "content": "ok"}],
    ),
    "anthropic": ([], [USER, {"role": "assistant", "content": "ok"}]),
    "ai_sdk": ([], [USER, {"role": "assistant", "content": "ok"}]),
    "ollama": ([], [USER, {"role": "assistant", "content": "ok"}]),
    "gemini": ([], [{"role": "user", "parts": [{"text": "and?"}]}, {"role": "model", "parts": [{"text": "ok"}]}]),
}
"""Around the broken place: what makes sure that no missing part can be thought to come, or to have been, elsewhere."""


def broken(messages: list[Json], format: str) -> list[list[Json]]:
    """Every way to break the list by one loss, one doubling or one interruption."""
    found = []
    for place, message in enumerate(messages):
        without, doubled = [*messages[:place], *messages[place + 1 :]], [*messages[:place], message, *messages[place:]]
        interrupted = [*messages[: place + 1], USER, *messages[place + 1 :]]
        kind = message.get("type", "message")
        if any(block.get("toolName") == "web_search" for block in blocks(message)):
            continue  # the AI SDK lets a provider answer its own calls whenever it likes
        if open_calls([message]) and not (format == "ollama" and message["role"] == "tool"):
            found.append(without)  # Ollama takes calls without results
        if format in ("chat_completions", "ollama") and message.get("role") in ("tool", "function"):
            found.append(doubled)
        if format == "chat_completions" and ("tool_calls" in message or "function_call" in message):
            found.append(interrupted)
        if kind == "reasoning":
            found.append(interrupted)
        if kind.endswith("_output") and open_calls([message]):
            found.append(doubled)
        if any(block_type(block) in ("tool_result", "tool-result") for block in blocks(message)):
            found.append(doubled)
        if any(block_type(block) == "tool-call" for block in blocks(message)):
            found.append(interrupted)
    return found


@pytest.mark.parametrize("format", BEFORE_AND_AFTER)
@settings(max_examples=examples(150))
@given(data=st.data())
def test_an_illegal_history_comes_back_untouched(format: str, data: st.DataObject) -> None:
    before, after = BEFORE_AND_AFTER[format]
    ways = broken(data.draw(COMPLETE_HISTORIES[format]), format)
    messages = before + data.draw(st.sampled_from(ways)) + after
    written = json.dumps(messages)
    result = compress(messages, format=format)
    assert result.messages is messages
    assert not result.compressed
    assert result.failure is not None
    assert "the provider would refuse: message " in result.failure
    assert json.dumps(messages) == written


# --------------------------------------------------------------------------------------------------- no history

budgets = st.sampled_from([0, 30, 100])  # with some, there is room to fill


@settings(max_examples=examples(200))
@given(messages=json_lists | json_values)
def test_any_json_gives_a_result_or_a_message_error(messages: Any) -> None:
    with suppress(MessageError):
        assert isinstance(compress(messages, tokens="cl100k_base"), Result)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_so_does_a_history_with_one_value_damaged(kind: str, data: st.DataObject) -> None:
    with suppress(MessageError):
        assert isinstance(compress(data.draw(damaged_histories(kind)), budget=data.draw(budgets)), Result)


@given(messages=json_lists, format=st.sampled_from(list(BEFORE_AND_AFTER)))
def test_so_does_json_said_to_be_of_a_format(messages: Any, format: str) -> None:
    with suppress(MessageError):
        assert isinstance(compress(messages, format=format, budget=30), Result)
