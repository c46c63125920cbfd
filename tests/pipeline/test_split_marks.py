"""Agents move cache marks at every step: the reader goes back no further than it must, and reads the same."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx import FocusConfig
from focusctx.pipeline.split import Reader, RecentHistories, read_history
from focusctx.wire import wire_named
from strategies import HISTORIES

MARK = {"type": "ephemeral"}


def remarked(messages: list[dict[str, Any]], place: int) -> list[dict[str, Any]]:
    """The same messages in new objects, with one mark, on the last block of one of them."""
    moved = copy.deepcopy(messages)
    for message in moved:
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            block.pop("cache_control", None)
    content = moved[place].get("content")
    if isinstance(content, str) and content:
        moved[place]["content"] = [{"type": "text", "text": content, "cache_control": MARK}]
    elif isinstance(content, list) and content:
        content[-1]["cache_control"] = MARK
    return moved


@given(st.data())
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("format", ["anthropic", "chat_completions"])
def test_a_reader_that_went_back_has_read_what_a_fresh_one_reads(format: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[format])
    cut = data.draw(st.integers(1, len(messages)))
    reader = Reader(wire_named(format), FocusConfig(), len)
    reader.extend(remarked(messages, data.draw(st.integers(0, len(messages) - 1)))[:cut])
    moved = remarked(messages, data.draw(st.integers(0, len(messages) - 1)))
    assert reader.takes_marks(moved)
    reader.extend(moved[cut:])
    assert reader.history() == read_history(moved, FocusConfig(), len, format=format)
    assert reader.messages == moved
    assert sum(reader.sizes) == reader.tokens


@given(st.data())
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("format", ["anthropic", "chat_completions", "responses"])
def test_a_reader_that_forgot_words_has_read_what_a_fresh_one_reads(format: str, data: st.DataObject) -> None:
    """A reminder stood behind the first part, and is gone when the rest comes."""
    messages = data.draw(HISTORIES[format])
    cut = data.draw(st.integers(1, len(messages)))
    reader = Reader(wire_named(format), FocusConfig(), len)
    reader.extend([*messages[:cut], {"role": "user", "content": "Do not forget."}])
    copied = copy.deepcopy(messages)
    if not reader.takes_other_words(copied):
        # Where there is no step yet, or the words stand between a call and its result, they count.
        assert reader.messages[:cut] == messages[:cut]
        return
    assert len(reader.messages) < cut
    reader.extend(copied[len(reader.messages) :])
    assert reader.history() == read_history(messages, FocusConfig(), len, format=format)
    assert all(mine is theirs for mine, theirs in zip(reader.messages, copied, strict=True))
    assert sum(reader.sizes) == reader.tokens


def steps(count: int, marked: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Do it."}]}]
    for number in range(count):
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"seen {number}"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return remarked(messages, marked)


def test_only_what_follows_the_mark_is_read_again() -> None:
    recent = RecentHistories(FocusConfig(), len)
    first = recent.read(steps(50, 100), "anthropic")
    spans = [span.messages[0] for span in first.history().spans]
    second = recent.read(steps(51, 102), "anthropic")
    assert second is first
    assert second.newest == 51
    kept = [span.messages[0] for span in second.history().spans]
    assert all(old is new for old, new in zip(spans[:49], kept, strict=False))


def test_another_past_is_another_history() -> None:
    recent = RecentHistories(FocusConfig(), len)
    first = recent.read(steps(5, 10), "anthropic")
    other = steps(6, 12)
    other[2]["content"][0]["content"] = "something else"
    assert recent.read(other, "anthropic") is not first
