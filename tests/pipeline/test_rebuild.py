"""Whatever is dropped, the list that is left is one the provider accepts."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.config import FocusConfig
from focusctx.pipeline.budget import pinned_spans
from focusctx.pipeline.keep import leaders_of
from focusctx.pipeline.rebuild import rebuild
from focusctx.pipeline.split import read_history
from focusctx.types import History
from oracles import check, check_removed, check_skeleton, same
from strategies import HISTORIES, Json, format_of

CONFIG = FocusConfig()


def read(messages: list[Json], format: str | None = None) -> History:
    return read_history(messages, CONFIG, len, format=format)


def subset(history: History, data: st.DataObject) -> frozenset[int]:
    """Any spans to keep, with those that may not be dropped and those they rest on."""
    chosen = data.draw(st.frozensets(st.sampled_from(range(1, history.newest + 1)))) if history.spans else frozenset()
    chosen |= pinned_spans(history, None).keys()
    return chosen | leaders_of(history, chosen).keys()


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_with_every_span_kept_it_is_the_same_list_of_the_same_objects(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    written = json.dumps(messages)
    history = read(messages)
    everything = range(1, history.newest + 1)
    for dropped in ("remove", "skeleton"):
        assert same(rebuild(history, everything, dropped), messages)
    assert json.dumps(rebuild(history, everything)) == written


@pytest.mark.parametrize("kind", HISTORIES)
@settings(max_examples=400)
@given(data=st.data())
def test_any_spans_may_go(kind: str, data: st.DataObject) -> None:
    messages = data.draw(HISTORIES[kind])
    before = copy.deepcopy(messages)
    history = read(messages)
    kept = subset(history, data)
    removed, skeleton = (rebuild(history, kept, dropped) for dropped in ("remove", "skeleton"))
    check(messages, removed, format_of(kind))
    check_removed(messages, removed)
    check(messages, skeleton, format_of(kind))
    check_skeleton(messages, skeleton)
    assert messages == before
