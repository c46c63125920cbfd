"""Steps that somebody wants back, and views that are only looked at."""

import pytest

from focusctx.session.store import MemoryStore
from focusctx.session.stores import store_from
from helpers.session_parts import Draft, cites, growing, moved, session_of, sized

HISTORY = sized(*[100] * 16)


def calls_in(view: list[dict]) -> set[str]:
    return {message["tool_call_id"] for message in view if message["role"] == "tool"}


def test_a_restored_span_comes_back_and_stays_for_the_rest_of_the_session():
    session = session_of(Draft(cites()))
    steps = iter(growing(HISTORY))
    for history in steps:
        if "call_2" not in calls_in(session.view(history)) and len(history) > 5:
            break
    assert session.restore(2)
    views = [session.view(history) for history in steps]
    assert all("call_2" in calls_in(view) for view in views)
    assert len(views[-1]) < len(HISTORY), "others still go"
    causes = [event.cause for event in moved(session)]
    assert causes[:2] == ["compressed", "restored"]
    assert "compressed" in causes[2:], "a later event decided about it again and left it"


def test_only_what_is_dropped_can_be_restored():
    session = session_of(Draft(cites()))
    assert not session.restore(1)
    session.view(HISTORY)
    assert session.restore(1)
    session.view(HISTORY)
    assert not session.restore(1)
    assert not session.restore(99)


@pytest.mark.parametrize("url", ["memory", "sqlite"])
def test_another_session_on_the_store_sees_it_and_keeps_it(url, tmp_path):
    store = store_from(f"sqlite:///{tmp_path / 'focus.db'}" if url == "sqlite" else url)
    first = session_of(Draft(cites()), store)
    first.view(HISTORY[:20])
    first.restore(2)
    other = session_of(Draft(cites()), store)
    assert "call_2" in calls_in(other.view(HISTORY[:20]))
    assert "call_2" in calls_in(other.view(HISTORY))
    assert "call_2" in calls_in(first.view(HISTORY))


def test_closing_a_session_leaves_a_store_that_others_share_alone():
    class Watched(MemoryStore):
        closed = False

        def close(self) -> None:
            self.closed = True

    store = Watched()
    session_of(Draft(cites()), store).close()
    assert not store.closed
