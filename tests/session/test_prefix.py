"""The prefix does not move, except at events: random histories, formats, budgets, sketches and settings."""

import copy
import hashlib
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.invariants import violations
from focusctx.pipeline.split import read_history
from focusctx.session.proposal import LeftOut
from focusctx.session.recall import TOOL
from focusctx.session.store import MemoryStore
from helpers.oracles import blocks, in_order, same, words
from helpers.session_parts import Draft, cites, moved, session_of
from strategies import HISTORIES, SAID, Json, format_of

CONFIG = FocusConfig()


def random_plan(seed: int) -> Any:
    """Cites some spans, always the same ones of the same history."""

    def plan(prompt: Any) -> str:
        indices = [span.index for span in prompt.history.spans]
        digest = hashlib.sha256(f"{seed} {indices}".encode()).digest()
        rng = random.Random(digest)
        return cites(*(index for index in indices if rng.random() < 0.5))

    return plan


@st.composite
def long_histories(draw: st.DrawFn, kind: str) -> list[Json]:
    """Some histories one after the other, as long as the provider takes them."""
    messages = draw(HISTORIES[kind])
    for _ in range(draw(st.integers(1, 4))):
        more = draw(HISTORIES[kind]) + messages
        if not violations(more, format_of(kind)):
            messages = more
    return messages


settings_of_sessions = st.fixed_dictionaries(
    {
        "budget": st.integers(0, 200),
        "levels": st.booleans(),
        "target": st.sampled_from([None, 0.5]),
        "recall": st.booleans(),
        "model": st.sampled_from([None, "gpt-4.1", "claude-sonnet-4-5"]),
        "only_if_it_pays": st.booleans(),
        "growth": st.sampled_from([0.0, 0.25, 1.0]),
        "ahead": st.sampled_from([0.2, 0.8, 1.0]),
    }
)


def dumped(messages: Any) -> list[str]:
    return [json.dumps(message) for message in messages]


def without_note(view: list[Json]) -> list[Json]:
    texts = ("[Left out to save space", "[{'text': '[Left out to save space")
    return [one for one in view if not str(one.get("content", one.get("parts"))).startswith(texts)]


def check_view(view: list[Json], history: list[Json], format: str, options: Json) -> None:
    """Check the properties that every view has, independent of the decisions."""
    bare = without_note(view)
    assert len(view) - len(bare) <= options["recall"]
    if violations(history, format) == []:
        assert violations(view, format) == []
    assert same(words(bare), words(history)), "the user's words, all and in order"
    spans = read_history(history, CONFIG, len, format=format).spans
    if spans:
        for message in spans[-1].messages:
            parts = [message] if any(message is each for each in history) else blocks(message)
            assert in_order(parts, [part for each in bare for part in (each, *blocks(each))]), "the newest span"


def drive(history: list[Json], cuts: list[int], format: str, options: Json, seed: int) -> int:
    """A run of the agent with calls at these lengths of its history; how often the prefix moved."""
    store = MemoryStore()
    session = session_of(Draft(random_plan(seed)), store, tokens=len, **options)
    alone = {**options, "ahead": 1.0}
    follower = session_of(Draft(), store, tokens=len, **{**alone, "budget": 10**9})
    before, seen = [], 0
    for cut in cuts:
        events = len(moved(session))
        now = history[:cut]
        view = session.view(now, format=format)
        expected = dumped(before) + dumped(history[seen:cut])
        if len(moved(session)) == events:
            assert dumped(view) == expected, "moved without an event"
        else:
            assert len(moved(session)) == events + 1
            assert dumped(view)[: len(expected)] != expected, "an event that moved nothing"
        check_view(view, now, format, options)
        fresh = session_of(Draft(random_plan(seed)), store, tokens=len, **alone)
        assert dumped(fresh.view(now, format=format)) == dumped(view), "a fresh session, the same store"
        assert not moved(fresh)
        assert dumped(follower.view(copy.deepcopy(now), format=format)) == dumped(view), "another that only follows"
        before, seen = view, cut
    session.close()
    assert session.savings.events == len(moved(session))
    return len(moved(session))


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=40)
@given(data=st.data())
def test_between_two_events_the_view_only_grows(kind: str, data: st.DataObject) -> None:
    history = data.draw(long_histories(kind))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(history)), min_size=1)))
    drive(history, cuts, format_of(kind), data.draw(settings_of_sessions), data.draw(st.integers(0, 5)))


def steady(format: str, rng: random.Random, steps: int) -> tuple[list[Json], list[int]]:
    """A run of many steps, each with a call or two, and the lengths at which the agent calls its model."""
    messages: list[Json] = [{"role": "user", "content": f"{SAID}go"}]
    cuts = [1]
    for step in range(steps):
        ids = [f"id_{step}_{number}" for number in range(rng.randint(1, 2))]
        texts = {
            each: "".join(f"line {n} of {each} says {step * n}\n" for n in range(rng.randint(0, 24))) for each in ids
        }
        asked = json.dumps({"step": step})
        if format == "chat_completions":
            calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": asked}} for each in ids]
            messages.append({"role": "assistant", "content": "so", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": each, "content": texts[each]} for each in ids]
        elif format == "responses":
            messages += [{"type": "reasoning", "id": f"rs_{step}", "summary": []}] * rng.randint(0, 1)
            messages += [{"type": "function_call", "call_id": each, "name": "look", "arguments": asked} for each in ids]
            messages += [{"type": "function_call_output", "call_id": each, "output": texts[each]} for each in ids]
        else:
            thinking = [{"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}] * rng.randint(0, 1)
            uses = [{"type": "tool_use", "id": each, "name": "look", "input": {"step": step}} for each in ids]
            results = [{"type": "tool_result", "tool_use_id": each, "content": texts[each]} for each in ids]
            said = [{"type": "text", "text": f"{SAID}yes"}] * rng.randint(0, 1)
            messages.append({"role": "assistant", "content": [*thinking, *uses]})
            messages.append({"role": "user", "content": [*results, *said]})
        if rng.random() < 0.2:
            messages.append({"role": "user", "content": f"{SAID}{step}"})
        cuts.append(len(messages))
    return messages, cuts


@pytest.mark.parametrize("format", ["chat_completions", "responses", "anthropic"])
@settings(max_examples=12)
@given(options=settings_of_sessions, seed=st.integers(0, 10_000), ahead=st.sampled_from([1.0, 0.6]))
def test_over_a_long_run_too(format: str, options: Json, seed: int, ahead: float) -> None:
    history, cuts = steady(format, random.Random(seed), 25)
    events = drive(history, cuts, format, {**options, "ahead": ahead, "budget": 10 * options["budget"]}, seed)
    if options["model"] is None and options["growth"] < 1:
        assert events > 2 - options["levels"]


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_fork_keeps_what_was_decided_and_an_edit_does_not(kind: str, data: st.DataObject) -> None:
    wire = format_of(kind)
    history = data.draw(long_histories(kind))
    options = data.draw(settings_of_sessions)
    store = MemoryStore()
    session = session_of(Draft(random_plan(data.draw(st.integers(0, 5)))), store, tokens=len, **options)
    view = session.view(history, format=wire)
    dropped = session.conversations[0].dropped
    follower = session_of(Draft(), store, tokens=len, **{**options, "budget": 10**9})

    said: Json = {"role": "user", "content": SAID + "another way"}
    assert dumped(follower.view([*history, said], format=wire)) == dumped([*view, said])

    place = data.draw(st.integers(0, len(history) - 1))
    edited = [*history[:place], {**history[place], "edited": "yes"}, *history[place + 1 :]]
    try:
        spans = read_history(edited, CONFIG, len, format=wire)
    except ValueError:  # the edit made another kind of item of it
        return
    fresh = without_note(follower.view(edited, format=wire))
    untouched = {
        span.index
        for span in spans.spans
        if max(at for at, owner in enumerate(spans.owners) if span.index in _owners(owner)) < place
    }
    gone = {span.index for span in spans.spans if not in_order(_parts(span, edited), _all_parts(fresh))}
    if not options["levels"]:
        assert gone <= untouched & dropped, "nothing is dropped from the edit on"
    check_view(follower.view(edited, format=wire), edited, wire, options)


def _owners(owner: Any) -> tuple[int, ...]:
    return owner if isinstance(owner, tuple) else (owner,)


def _parts(span: Any, history: list[Json]) -> list[Json]:
    return [
        part
        for message in span.messages
        for part in ([message] if any(message is each for each in history) else blocks(message))
    ]


def _all_parts(messages: list[Json]) -> list[Json]:
    return [part for message in messages for part in (message, *blocks(message))]


@pytest.mark.parametrize("kind", ["chat_completions", "responses", "anthropic"])
@settings(max_examples=20)
@given(data=st.data())
def test_two_sessions_take_turns_on_one_conversation(kind: str, data: st.DataObject) -> None:
    wire = format_of(kind)
    history = data.draw(long_histories(kind))
    options = data.draw(settings_of_sessions)
    store = MemoryStore()
    pair = [session_of(Draft(random_plan(seed)), store, tokens=len, **options) for seed in (1, 2)]
    for cut in range(1, len(history) + 1):
        first, second = (pair[(cut + turn) % 2] for turn in range(2))
        first.view(history[:cut], format=wire)
        view = second.view(history[:cut], format=wire)
        assert dumped(first.view(history[:cut], format=wire)) == dumped(view)
    check_view(view, history, wire, options)


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=20)
@given(data=st.data())
def test_a_user_who_goes_back_finds_a_legal_view(kind: str, data: st.DataObject) -> None:
    """Back to any earlier message: the decisions made later hold there too, but never for the newest step."""
    wire = format_of(kind)
    history = data.draw(long_histories(kind))
    options = data.draw(settings_of_sessions)
    session = session_of(Draft(random_plan(1)), tokens=len, **options)
    session.view(history, format=wire)
    for _ in range(3):
        cut = data.draw(st.integers(1, len(history)))
        check_view(session.view(history[:cut], format=wire), history[:cut], wire, options)
        again: Json = {"role": "user", "content": SAID + f"from {cut}"}
        branch = [*history[:cut], again]
        check_view(session.view(branch, format=wire), branch, wire, options)


def test_the_property_can_fail() -> None:
    """The note is what these tests take out; a view whose note moved would be noticed."""
    assert TOOL in str(without_note([{"role": "user", "content": f"call {TOOL}"}]))
    with pytest.raises(AssertionError):
        check_view([], [{"role": "user", "content": f"{SAID}hello"}], "chat_completions", {"recall": False})


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=40)
@given(data=st.data())
def test_what_an_event_leaves_out_is_what_those_who_follow_it_leave_out(kind: str, data: st.DataObject) -> None:
    """Steps that must stay bring companions back, but not those that an earlier event left out: that is stored."""
    history = data.draw(long_histories(kind))
    session = session_of(Draft(), MemoryStore(), tokens=len, levels=False, target=None, budget=10**9)
    session.view(history, format=format_of(kind))
    (conversation,) = session.conversations
    now = conversation.now()
    numbers = st.frozensets(st.integers(1, max(len(now.history.spans), 1)))
    spans = numbers.map(lambda gone: LeftOut(dict.fromkeys(gone)))
    before = now.change_to(data.draw(spans)).left_out
    now = replace(now, decided=before, place=replace(now.place, left_out=before))
    change = now.change_by(data.draw(spans))
    assert now.change_to(before.then(change.left_out)).left_out == change.left_out
