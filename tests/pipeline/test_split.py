"""A message list becomes a goal, the user's words and numbered spans: what holds for every history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.pipeline.rebuild import rebuild
from helpers.oracles import kept_spans
from pipeline.reading import read, shape
from strategies import HISTORIES, SAID, Json, format_of


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_every_message_has_one_place(kind: str, data: st.DataObject) -> None:
    """Owners cover the list, spans hold exactly what they own, and user words are owned by nobody."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    assert history.messages == tuple(messages)
    assert len(history.owners) == len(messages)
    assert [span.index for span in history.spans] == list(range(1, history.newest + 1))
    for span in history.spans:
        owned = [
            message if isinstance(owner, int) else _picked(message, owner, span.index)
            for message, owner in zip(messages, history.owners, strict=True)
            if owner == span.index or (isinstance(owner, tuple) and span.index in owner)
        ]
        assert list(span.messages) == owned
        assert span.needs is None or span.needs < span.index
    said = [turn.text for turn in history.user_turns]
    assert len(said) == sum(_speaks(message) for message in messages)
    assert all(SAID in text for text in said)


def _picked(message: Json, owner: tuple[int, ...], index: int) -> Json:
    field = "content" if "content" in message else "parts"
    own = [block for block, its_owner in zip(message[field], owner, strict=True) if its_owner == index]
    return {**message, field: own}


def _speaks(message: Json) -> bool:
    content = message.get("content", message.get("parts"))
    texts = [block.get("text", "") for block in content] if isinstance(content, list) else [content]
    speaker = message.get("role") == "user" or (message.get("role") == "function" and "parts" in message)
    return speaker and any(str(text).startswith(SAID) for text in texts)


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_what_a_message_belongs_to_never_changes_as_the_history_grows(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    whole = read(messages, format=format_of(kind))
    for length in range(len(messages)):
        assert read(messages[:length], format=format_of(kind)).owners == whole.owners[:length]


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_tokens_add_up(kind: str, data: st.DataObject) -> None:
    """What is left counts what it counted before: before, less the dropped spans, is after."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    kept = kept_spans(history, data)
    dropped = [span for span in history.spans if span.index not in kept]
    again = read(rebuild(history, kept), format=history.format)
    assert again.tokens == history.tokens - sum(span.tokens for span in dropped)
    assert sum(span.tokens for span in history.spans) <= history.tokens


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_a_compressed_history_reads_as_the_spans_that_were_kept(kind: str, data: st.DataObject) -> None:
    """So the next event decides about the same steps, and about no word of the user."""
    messages = data.draw(HISTORIES[kind])
    history = read(messages)
    if any(span.waiting for span in history.spans):
        return  # a result that came late may find its step only once what stood between is gone
    kept = kept_spans(history, data)
    again = read(rebuild(history, kept), format=history.format)
    assert shape(again) == [each for number, each in enumerate(shape(history), 1) if number in kept]
    assert [turn.text for turn in again.user_turns] == [turn.text for turn in history.user_turns]
