"""The face of a session: its public names, how it is closed, and how it prints."""

import asyncio
from pathlib import Path

import pytest

from focusctx import ConfigError, Focus
from focusctx.session.session import Session
from focusctx.session.stores import store_from
from helpers.session_parts import BreakableStore, Draft, cites, session_of, sized, wait_until

URL = "sqlite:///{}/focus.db"


def saved_in(path: Path) -> int:
    store = store_from(URL.format(path))
    try:
        return store.totals("default").tokens_saved
    finally:
        store.close()


def hold_totals_back(session: Session) -> None:
    """Make one event whose savings are written, and a second call whose savings wait."""
    session.view(sized(*[100] * 4))
    session.view(sized(*[100] * 4, 1))


def test_the_public_names_are_those_of_the_docs() -> None:
    assert {name for name in dir(session_of(Draft())) if not name.startswith("_")} == {
        *("view", "aview", "recall", "recall_tool", "handle_recall", "restore", "close"),
        *("conversations", "events", "savings", "size", "focus", "store", "tenant"),
    }


def test_a_with_block_closes_the_session(tmp_path: Path) -> None:
    with session_of(Draft(cites(2)), URL.format(tmp_path), model="gpt-4.1") as session:
        assert isinstance(session, Session)
        hold_totals_back(session)
        assert saved_in(tmp_path) < session.savings.tokens_saved
    assert saved_in(tmp_path) == session.savings.tokens_saved > 0


def test_an_async_with_block_closes_the_session(tmp_path: Path) -> None:
    async def use() -> Session:
        async with session_of(Draft(cites(2)), URL.format(tmp_path), model="gpt-4.1") as session:
            hold_totals_back(session)
            assert saved_in(tmp_path) < session.savings.tokens_saved
        return session

    session = asyncio.run(use())
    assert saved_in(tmp_path) == session.savings.tokens_saved > 0


def test_a_with_block_that_fails_closes_the_session_and_raises(tmp_path: Path) -> None:
    session = session_of(Draft(cites(2)), URL.format(tmp_path), model="gpt-4.1")

    def fail() -> None:
        with session:
            hold_totals_back(session)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert saved_in(tmp_path) == session.savings.tokens_saved > 0


def test_closing_stops_sketches_under_way() -> None:
    draft = Draft(seconds=30)
    with session_of(draft, budget=1000, ahead=0.8) as session:
        session.view(sized(*[100] * 9))
        assert wait_until(lambda: draft.under_way == 1)
    assert wait_until(lambda: draft.under_way == 0)


async def test_an_async_block_stops_sketches_under_way() -> None:
    draft = Draft(seconds=30)
    async with session_of(draft, budget=1000, ahead=0.8) as session:
        await session.aview(sized(*[100] * 9))
        await asyncio.sleep(0.05)
        assert draft.under_way == 1
    await asyncio.sleep(0.05)
    assert (draft.under_way, draft.cancelled) == (0, 1)


def test_a_store_of_ones_own_stays_open() -> None:
    closed: list[bool] = []

    class Watched(BreakableStore):
        def close(self) -> None:
            closed.append(True)

    with session_of(Draft(), Watched()) as session:
        session.view(sized(1))
    assert not closed


def test_all_print_as_one_short_line() -> None:
    session = session_of(Draft(cites(2)))
    view = session.view(sized(*[100] * 6))
    key = view.conversation.key
    assert repr(session) == "<Session: conversations=1, store=MemoryStore>"
    assert repr(view.conversation) == f"<Conversation {key}, 6 steps>"
    assert repr(view) == f"<View of {len(view)} messages, conversation {key}>"


def test_an_unknown_option_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'budget'; known: ahead, .*growth, .*recall, tenant"):
        Focus("offline").session(budget=4)  # type: ignore[call-arg]
