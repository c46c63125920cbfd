"""Whatever is dropped, the list that is left is one the provider accepts."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.pipeline.must_stay import pinned_spans
from focusctx.pipeline.outline import Outlines, Parts, joint_records, message_tokens
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History, Span
from focusctx.wire import wire_named
from helpers.oracles import check, check_removed, check_verbatim, kept_spans, same
from helpers.thorough import examples
from strategies import HISTORIES, Json, format_of

CONFIG = FocusConfig()


def read(messages: list[Json], format: str | None = None) -> History:
    return read_history(messages, CONFIG, len, format=format)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_with_every_span_kept_it_is_the_same_list_of_the_same_objects(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    written = json.dumps(messages)
    history = read(messages)
    everything = range(1, history.newest + 1)
    for shortened in ({}, dict.fromkeys(everything, frozenset[int]())):
        assert same(rebuild(history, everything, shortened), messages)
    assert json.dumps(rebuild(history, everything)) == written


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(400))
@given(data=st.data())
def test_any_spans_may_go(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    history = read(messages)
    kept = kept_spans(history, data)
    removed = rebuild(history, kept)
    check(messages, removed, format_of(kind))
    check_removed(messages, removed)
    assert messages == before


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=examples(200))
@given(data=st.data())
def test_some_may_go_and_others_stay_in_part(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    history = read(messages)
    present = kept_spans(history, data)
    pinned = pinned_spans(history, None)
    shortened = {
        span.index: some_parts(history, span, data)
        for span in history.spans
        if span.index in present and span.index not in pinned and data.draw(st.booleans())
    }
    rebuilt = rebuild(history, present - shortened.keys(), shortened)
    check(messages, rebuilt, format_of(kind))
    check_verbatim(messages, rebuilt)
    assert messages == before
    outlines, wire = history.outlines, wire_named(history.format)
    assert outlines is not None
    fixed = history.tokens - sum(span.tokens for span in history.spans)
    whole = sum(span.tokens for span in history.spans if span.index in present - shortened.keys())
    lines = joint_records(history.spans, present - shortened.keys(), shortened, outlines)
    rest = sum(
        outlines.tokens(span, shortened[span.index], lines.get(span.index, ""))
        for span in history.spans
        if span.index in shortened
    )
    assert sum(message_tokens(message, wire, len) for message in rebuilt) == fixed + whole + rest


def outlines_of(history: History) -> Outlines:
    assert history.outlines is not None
    return history.outlines


def some_parts(history: History, span: Span, data: st.DataObject) -> Parts:
    """Any of a step's passages, with the calls that its record shows."""
    assert history.outlines is not None
    outline = history.outlines.of(span)
    numbers = [passage.number for passage in outline.passages]
    return outline.record | (data.draw(st.frozensets(st.sampled_from(numbers))) if numbers else frozenset())


TURN = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "a line of a long result\n" * 40}
WORDS = {"type": "text", "text": "and hurry"}
TASK = {"role": "user", "content": "go"}


def test_words_stay_when_the_results_beside_them_go() -> None:
    mixed = {"role": "user", "content": [RESULT, WORDS]}
    history = read([TASK, TURN, mixed])
    removed = rebuild(history, ())
    assert removed == [TASK, {"role": "user", "content": [WORDS]}]
    assert removed[1]["content"][0] is WORDS
    record = "a line of a long result\n[… 39 lines left out]\n"
    assert rebuild(history, (), {1: frozenset()}) == [
        TASK,
        TURN,
        {"role": "user", "content": [{**RESULT, "content": record}, WORDS]},
    ]
    assert mixed["content"] == [RESULT, WORDS]


def test_a_message_of_results_alone_goes_whole() -> None:
    assert rebuild(read([TASK, TURN, {"role": "user", "content": [RESULT]}]), ()) == [TASK]


def test_an_orphan_stays_where_it_is() -> None:
    """It is illegal, and not ours to repair: such a list is never compressed, but it is never shortened either."""
    orphan = {"role": "user", "content": [{**RESULT, "tool_use_id": "lost"}]}
    assert rebuild(read([TASK, orphan, TURN]), ()) == [TASK, orphan]


def test_spans_without_messages_rebuild_to_nothing() -> None:
    assert rebuild(History(goal="go", spans=()), (1,)) == []


@pytest.mark.parametrize(
    ("kept", "shortened", "line"),
    [
        ({3, 5}, {1, 4}, (1, "later")),  # right behind the shortened step
        ({1, 4, 5}, {3}, (3, "earlier")),  # right before it
        ({3, 4, 5}, {1}, (1, "later")),
        ({1, 5}, {3, 4}, (3, "earlier")),
        ({3, 4}, {1, 5}, (1, "later")),
    ],
)
def test_gone_steps_are_told_of_beside_their_place(kept: set[int], shortened: set[int], line: tuple[int, str]) -> None:
    messages = [TASK, *(one for number in range(1, 6) for one in _look(number))]
    history = read(messages)
    parts = {index: frozenset[int]() for index in shortened}
    anchor, place = line
    (gone,) = {1, 2, 3, 4, 5} - kept - shortened
    found = joint_records(history.spans, kept, parts, outlines_of(history))
    assert found == {anchor: f"[… 1 {place} step left out: look ({gone})]"}


def test_of_few_calls_that_are_gone_it_is_said_what_for_and_of_many_how_many() -> None:
    history = read([TASK, *(one for number in range(1, 8) for one in _look(number))])
    parts = {1: frozenset[int]()}
    for last, names in ((4, "look (2), look (3), look (4)"), (5, "look ×4")):
        kept = set(range(last + 1, 8))
        (line,) = joint_records(history.spans, kept, parts, outlines_of(history)).values()
        assert line == f"[… {last - 1} later steps left out: {names}]"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"origin": "JFK", "date": "2024-05-20"}, "look (JFK)"),
        ({"token": "MA-1051", "about": "Elm"}, "look (Elm)"),
        ({"access_token": "MA-1051"}, "look"),
        ({"query": "x" * 60}, "look"),
        ({"query": 'a "quoted" thing'}, "look"),
        ({}, "look"),
    ],
)
def test_what_a_call_was_for_is_said_if_it_is_short_and_no_secret(given: dict[str, object], named: str) -> None:
    messages = [TASK, *(one for number in range(1, 4) for one in _look(number, given if number == 2 else None))]
    history = read(messages)
    found = joint_records(history.spans, {3}, {1: frozenset()}, outlines_of(history))
    assert found == {1: f"[… 1 later step left out: {named}]"}


def test_one_step_tells_of_gone_steps_before_and_after_it() -> None:
    history = read([TASK, *(one for number in range(1, 6) for one in _look(number))])
    found = joint_records(history.spans, {1, 5}, {3: frozenset()}, outlines_of(history))
    assert found == {3: "[… 1 earlier step left out: look (2)]\n[… 1 later step left out: look (4)]"}


def _look(number: int, given: dict[str, object] | None = None) -> list[dict[str, object]]:
    asked = {"page": number} if given is None else given
    call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": asked}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a line of a long result\n" * 40}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
