"""Focus over histories and sketches of every kind: whatever comes in, what goes out is safe to send."""

import copy
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx import DraftError, Focus, FocusConfig, MessageError, Result
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.split import read_history
from helpers.oracles import blocks, check, check_mixed, check_removed, check_skeleton, open_calls
from helpers.thorough import examples
from strategies import COMPLETE_HISTORIES, HISTORIES, Json, damaged_histories, format_of, json_lists, json_values, texts

PLAN = "Step: finish | Depends on: []"


def compress(messages: Any, *replies: Any, format: str | None = None, **settings: Any) -> Result:
    draft = ScriptedDraft(replies or [PLAN])
    return Focus(draft, **{"budget": 0, "tokens": len, **settings}).compress(messages, format=format)


# ------------------------------------------------------------------------------------------------ legal histories

ids = st.lists(st.integers(0, 8).map("s_{}".format), max_size=3).map(", ".join)
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
def test_what_goes_out_is_legal_whatever_the_sketches_say(kind: str, data: st.DataObject, said: list[Any]) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    dropped = data.draw(st.sampled_from(["remove", "skeleton"]))
    result = compress(messages, *said, dropped=dropped)
    assert messages == before
    assert sorted((*result.kept, *result.dropped)) == list(range(1, len(result.kept) + len(result.dropped) + 1))
    assert set(result.pinned) <= set(result.kept)
    assert result.compressed == bool(result.dropped)
    if not result.compressed:
        assert result.messages is messages
        return
    check(messages, result.messages, format_of(kind))
    (check_removed if dropped == "remove" else check_skeleton)(messages, result.messages)
    assert result.history is not None
    again = read_history(result.messages, Focus(ScriptedDraft([PLAN])).config, len, format=result.history.format)
    assert result.tokens_after == again.tokens
    cited = {index for sketch in result.sketches if not sketch.problem for index in sketch.cited | sketch.rescued}
    assert cited <= set(result.kept), "with three sketches, one that names a span is enough"


switches = st.fixed_dictionaries(
    {
        "fill": st.sampled_from([0.0, 0.7, 1.0]),
        "threshold": st.sampled_from([0.3, 0.6]),
        "limit": st.none() | st.integers(1, 300),
        "dropped": st.sampled_from(["remove", "remove", "skeleton"]),
    }
).filter(lambda chosen: chosen["limit"] is None or chosen["dropped"] == "remove")


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(80))
@given(data=st.data(), said=st.lists(replies, min_size=3, max_size=5), chosen=switches)
def test_so_is_it_whatever_else_has_a_say(
    kind: str, data: st.DataObject, said: list[Any], chosen: dict[str, Any]
) -> None:
    messages = data.draw(HISTORIES[kind])
    tokens = read_history(messages, FocusConfig(), len).tokens
    result = compress(messages, *said, budget=max(tokens - 1, 0), rollouts=len(said), **chosen)
    assert sorted((*result.kept, *result.dropped)) == list(range(1, len(result.kept) + len(result.dropped) + 1))
    assert set(result.pinned) <= set(result.kept)
    assert set(result.skeletons) <= set(result.dropped)
    fates = {decision.index: decision.fate for decision in result.decisions}
    assert [index for index, fate in fates.items() if fate == "skeleton"] == list(result.skeletons)
    assert [index for index, fate in fates.items() if fate in ("skeleton", "dropped")] == list(result.dropped)
    if not result.compressed:
        assert result.messages is messages
        return
    check(messages, result.messages, format_of(kind))
    check_mixed(messages, result.messages)
    assert result.history is not None
    assert result.tokens_after == read_history(result.messages, FocusConfig(), len, format=result.history.format).tokens
    paper = compress(
        messages, *said, budget=max(tokens - 1, 0), rollouts=len(said), threshold=chosen["threshold"], fill=0
    )
    if chosen["limit"] is None:
        assert set(paper.kept) - set(paper.pinned) <= set(result.kept), "what the sketches ask for stays"


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
}
"""Around the broken place: what makes sure that no missing part can be thought to come, or to have been, elsewhere."""


def broken(messages: list[Json], format: str) -> list[list[Json]]:
    """Every way to break the list by one loss, one doubling or one interruption."""
    found = []
    for place, message in enumerate(messages):
        without, doubled = [*messages[:place], *messages[place + 1 :]], [*messages[:place], message, *messages[place:]]
        interrupted = [*messages[: place + 1], USER, *messages[place + 1 :]]
        kind = message.get("type", "message")
        if open_calls([message]):
            found.append(without)
        if format == "chat_completions" and message.get("role") in ("tool", "function"):
            found.append(doubled)
        if format == "chat_completions" and ("tool_calls" in message or "function_call" in message):
            found.append(interrupted)
        if kind == "reasoning":
            found.append(interrupted)
        if kind.endswith("_output") and open_calls([message]):
            found.append(doubled)
        if any(block["type"] == "tool_result" for block in blocks(message)):
            found.append(doubled)
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
        assert isinstance(compress(messages, tokens="cl100k_base", dropped="skeleton"), Result)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_so_does_a_history_with_one_value_damaged(kind: str, data: st.DataObject) -> None:
    with suppress(MessageError):
        assert isinstance(compress(data.draw(damaged_histories(kind)), budget=data.draw(budgets)), Result)


@given(messages=json_lists, format=st.sampled_from(list(BEFORE_AND_AFTER)))
def test_so_does_json_said_to_be_of_a_format(messages: Any, format: str) -> None:
    with suppress(MessageError):
        assert isinstance(compress(messages, format=format, budget=30), Result)
