"""Who is talking: a conversation is its tenant, the caller's id and the chain of its steps, and nothing else."""

import copy
import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from focusctx import ConfigError, Conversation, Focus
from focusctx.pipeline.split import Reader
from focusctx.session import conversation as conversation_module
from focusctx.session.store import MemoryStore, Totals
from focusctx.session.stores import shared_store
from focusctx.session.stores.sqlite import SQLiteStore
from helpers.histories import call
from helpers.session_parts import Draft, calls_in, cites, crosses, growing, moved, session_of, sized


def told(history: list[dict], name: str) -> list[dict]:
    """A run with other observations: only the opening is equal."""
    return [
        {**message, "content": f"{name} {message['content']}"} if message["role"] == "tool" else message
        for message in history
    ]


HISTORY = sized(*[100] * 8)
ONE, TWO = told(HISTORY, "one"), told(HISTORY, "two")


def interleaved(session):
    """Two runs with one opening, step by step in turns; their last views."""
    for first, second in zip(growing(ONE), growing(TWO), strict=True):
        one, two = session.view(first), session.view(second)
    return one, two


# ------------------------------------------------------------------------------------------------- by their steps


def test_a_view_is_a_list_that_knows_its_conversation() -> None:
    session = session_of(Draft(cites(2)))
    view = session.view(HISTORY)
    assert isinstance(view, list)
    assert json.loads(json.dumps(view)) == list(view)
    assert isinstance(view.conversation, Conversation)
    assert (view.conversation.tenant, view.conversation.id) == ("default", None)
    assert view.conversation.size == session.size
    assert session.conversations == [view.conversation]
    assert session.view([*HISTORY, {"role": "user", "content": "Go on."}]).conversation is view.conversation
    assert view.conversation.key in repr(view.conversation)
    for copied in (copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert type(copied) is list
        assert copied == view


def test_two_runs_with_one_opening_recall_their_own_steps() -> None:
    session = session_of(Draft(cites(2)))
    one, two = interleaved(session)
    assert one.conversation is not two.conversation
    assert one.conversation.key != two.conversation.key
    for view, name in ((one, "one"), (two, "two")):
        (span,) = view.conversation.recall("s_1")
        assert span.messages[1]["content"] == f"{name} {'x' * 100}"
        assert session.recall("s_1", conversation=view.conversation) == [span]
        assert f"{name} x" in session.handle_recall('{"query": "s_1"}', conversation=view.conversation)
        assert view[3]["content"].startswith(name)


def test_a_step_restored_in_one_run_stays_dropped_in_the_other() -> None:
    session = session_of(Draft(cites(2)))
    one, two = interleaved(session)
    assert session.restore("s_3", conversation=one.conversation)
    assert session.view(TWO) == two
    restored = session.view(ONE)
    assert restored.conversation is one.conversation
    assert calls_in(restored) == calls_in(one) | {"call_3"}
    assert session.restore(3, conversation=two.conversation), "it was not in this one"


def test_events_and_savings_are_those_of_the_conversation() -> None:
    session = session_of(Draft(cites(2)))
    one, two = interleaved(session)
    quiet = session.view(sized(10, name=" aside")).conversation
    for conversation in (one.conversation, two.conversation):
        assert conversation.events
        assert {event.conversation for event in conversation.events} == {conversation.key}
    assert not quiet.events
    assert quiet.savings == Totals()
    assert one.conversation.savings + two.conversation.savings == session.savings
    assert sum(map(len, (one.conversation.events, two.conversation.events))) == len(session.events)


def test_a_session_of_several_conversations_asks_which_one_is_meant() -> None:
    session = session_of(Draft(cites(2)))
    interleaved(session)
    for ask in (
        lambda: session.recall("s_1"),
        lambda: session.handle_recall("s_1"),
        lambda: session.restore(1),
        lambda: session.size,
    ):
        with pytest.raises(ConfigError, match=r"view\.conversation"):
            ask()


def test_before_the_first_view_there_is_nothing_to_recall() -> None:
    session = session_of(Draft())
    assert session.size == (0, 0)
    assert session.recall("s_1") == []
    assert not session.restore("s_1")
    assert "Left out: nothing" in session.handle_recall("s_1")
    with pytest.raises(ConfigError):
        session.restore("the ledger")


def test_a_shorter_history_of_the_same_chain_is_no_other_conversation_to_ask_about() -> None:
    """An agent that tries a step again goes back a little: the steps are the same as far as they go."""
    session = session_of(Draft(cites(2)))
    session.view(HISTORY)
    assert session.view(HISTORY[:4])
    assert session.recall("s_3") == []
    assert session.view([*HISTORY, *sized(*[100] * 9)[-2:]]).conversation.dropped
    assert session.recall("s_3")


def test_a_reminder_behind_each_request_does_not_make_it_another_conversation() -> None:
    session, plain = session_of(Draft(cites(2))), session_of(Draft(cites(2)))
    for step, history in enumerate(growing(HISTORY)):
        reminder = {"role": "user", "content": f"Reminder: this was step {step}."}
        view = session.view([*history, reminder])
        assert view[:-1] == plain.view(history)
        assert view[-1] is reminder
    assert len(moved(session)) == len(moved(plain))
    assert len(session.conversations) <= 2, "before the first step the words are all there is"
    assert view.conversation.recall("s_1")


def test_with_reminders_too_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    extend = Reader.extend
    monkeypatch.setattr(Reader, "extend", lambda self, new: (read.append(len(new)), extend(self, new))[1])
    session = session_of(Draft(cites(2)), budget=10**6)
    for step, history in enumerate(growing(sized(*[100] * 30))):
        read.clear()
        own = [*json.loads(json.dumps(history)), {"role": "user", "content": f"Reminder {step}."}]
        view = session.view(own)
        assert view == own
        assert sum(read) <= 6, "the last step again, the new one and the words"
        assert view.conversation.size == (sum(crosses(message["content"]) for message in own),) * 2
    assert view.conversation.keys == session_of(Draft(), budget=10**6).view(own).conversation.keys


def test_equal_steps_in_other_objects_are_the_same_conversation() -> None:
    """SDK objects at one call and plain data at the next, after the agent was restored from its own file."""

    class Sdk:
        def __init__(self, message: dict) -> None:
            self._message = message

        def model_dump(self, **_: object) -> dict:
            return self._message

    session = session_of(Draft(cites(2)))
    given = [Sdk(message) if message["role"] == "assistant" else message for message in HISTORY]
    first = session.view(given)
    assert session.view(HISTORY).conversation is first.conversation


def test_an_edit_in_place_leaves_one_conversation() -> None:
    session = session_of(Draft(cites(3)))
    history = [dict(message) for message in HISTORY]
    before = session.view(history).conversation
    history[3]["content"] = "x" * 99
    after = session.view(history).conversation
    assert after is not before
    assert session.conversations == [after]
    assert after.key == before.key
    assert len(after.events) == 2
    assert all(event.result for event in session.events)
    assert session.recall("s_1")[0].messages[1]["content"] == "x" * 99


# --------------------------------------------------------------------------------------------------- by their id


def test_one_history_under_two_ids_is_two_conversations() -> None:
    draft = Draft(cites(2))
    session = session_of(draft)
    one, two = session.view(HISTORY, id="1"), session.view(HISTORY, id="2")
    assert one == two
    assert draft.calls == 1, "equal histories of one tenant share decisions"
    assert one.conversation is not two.conversation
    assert {one.conversation.id, two.conversation.id} == {"1", "2"}
    assert one.conversation.restore(3)
    assert session.view(HISTORY, id="2") == two
    assert "call_3" in calls_in(session.view(HISTORY, id="1"))


@pytest.mark.parametrize("url", ["memory", "sqlite"])
def test_a_restore_lasts_for_its_id(url: str, tmp_path: Path) -> None:
    store = MemoryStore() if url == "memory" else SQLiteStore(tmp_path / "focus.db")
    session_of(Draft(cites(2)), store).view(HISTORY, id="1").conversation.restore(3)
    assert "call_3" in calls_in(session_of(Draft(cites(2)), store).view(HISTORY, id="1"))
    assert "call_3" not in calls_in(session_of(Draft(cites(2)), store).view(HISTORY, id="2"))
    assert "call_3" not in calls_in(session_of(Draft(cites(2)), store).view(HISTORY))
    store.close()


async def test_the_async_form_takes_ids_too() -> None:
    session = session_of(Draft(cites(2)))
    view = await session.aview(HISTORY, id="1")
    assert (await session.aview(HISTORY, id="1")).conversation is view.conversation
    assert (await session.aview(HISTORY)).conversation is not view.conversation


def test_sub_agents_of_one_id_are_told_apart_by_their_steps() -> None:
    session = session_of(Draft(cites(2)))
    main, side = session.view(ONE, id="run"), session.view(told(sized(*[100] * 8, name=" aside"), "two"), id="run")
    assert main.conversation.recall("s_1") != side.conversation.recall("s_1")


# ------------------------------------------------------------------------------------------------------- tenants


@pytest.mark.parametrize("runs", [50, pytest.param(250, marks=pytest.mark.slow)])
def test_thousands_of_steps_of_two_tenants_with_the_same_words(runs: int) -> None:
    store = MemoryStore()
    names = ("ann", "bob")
    focus = Focus(Draft(lambda prompt: cites(2)), budget=30, tokens=crosses)
    sessions = {name: focus.session(store, tenant=name, ahead=1.0) for name in names}
    secret = {name: f"the secret of {name}" for name in names}
    steps, made = 0, {name: set() for name in names}
    for run in range(runs):
        for history in growing(sized(*[4] * 19, name=f" {run % (runs // 5)}")):
            for name in names:
                own = [*history]
                if len(own) > 5:
                    own[3] = {**own[3], "content": f"xxxx {secret[name]} {run}"}
                view = sessions[name].view(own)
                steps += 1
        for name in names:
            made[name].add(view.conversation.key if name == "bob" else sessions[name].conversations[0].key)
    assert steps == 40 * runs
    for name, other in zip(names, reversed(names), strict=True):
        session = sessions[name]
        session.close()
        for conversation in session.conversations:
            assert conversation.tenant == name
            for span in conversation.recall(secret[other]):
                assert secret[other] not in span.text
        assert any(conversation.recall(secret[name]) for conversation in session.conversations)
        assert not made[name] & made[other]
    keys = {name: {event.key for event in store.recent(name, 10_000)} for name in names}
    assert keys["ann"]
    for name, other in zip(names, reversed(names), strict=True):
        originals = json.dumps([span.messages for span in store.archived(name, list(keys[name]))])
        assert secret[name] in originals
        assert secret[other] not in originals
        assert not store.events(name, [key for key in keys[other] if key not in keys[name]])
    assert store.totals("ann") == store.totals("bob") == sessions["ann"].savings
    assert store.totals("ann").events > runs


# --------------------------------------------------------------------------------------- totals, files and the log


def test_totals_are_written_when_a_conversation_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "MOST", 4)
    store = MemoryStore()
    session = session_of(Draft(cites(2)), store)
    for run in range(40):
        session.view(sized(*[100] * 8, name=str(run)))
    assert len(session.conversations) == 4
    assert [event.result is not None for event in session.events] == [False] * 36 + [True] * 4, "they hold histories"
    assert session.savings.events == 40
    assert store.totals("default").events >= 36
    session.close()
    assert store.totals("default") == session.savings


def test_memory_is_bounded_in_tokens_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "MOST_TOKENS", 2500)
    session = session_of(Draft(cites(2)))
    for run in range(10):
        last = session.view(sized(*[100] * 8, name=str(run))).conversation
    assert len(session.conversations) == 3
    assert session.conversations[0] is last
    huge = session.view(sized(*[1000] * 8)).conversation
    assert session.conversations == [huge]


def test_a_program_that_ends_without_closing_loses_no_totals(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from helpers.session_parts import Draft, cites, growing, session_of, sized
for run in range(5):
    session = session_of(Draft(cites(2)), "sqlite:///{tmp_path}/focus.db", tenant="t")
    for history in growing(sized(*[100] * 8, name=str(run))):
        session.view(history)
    print(session.savings.events, session.savings.tokens_saved)
    del session
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    printed = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    stored = SQLiteStore(tmp_path / "focus.db").totals("t")
    assert (stored.events, stored.tokens_saved) == tuple(map(sum, zip(*printed, strict=True)))
    assert stored.events >= 10


def open_files(folder: Path) -> int:
    """Count the files of this folder that this process has open; other tests' threads may open others meanwhile."""
    return sum(1 for one in Path("/proc/self/fd").iterdir() if os.path.realpath(one).startswith(str(folder)))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files through /proc")
def test_open_files_are_bounded_by_the_number_of_stores(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/focus.db"
    sessions = [session_of(Draft(cites(2)), url, tenant=str(number)) for number in range(200)]
    for number, session in enumerate(sessions):
        session.view(sized(*[100] * 8, name=str(number)))
    assert 0 < open_files(tmp_path) < 10
    sessions[0].close()
    assert sessions[1].recall("s_1"), "another one's close takes nothing away"
    assert shared_store(url) is sessions[0].store
    for session in sessions:
        session.close()
    assert open_files(tmp_path) == 0


def test_each_event_and_each_refusal_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "focusctx")
    session = session_of(Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans))), growth=10.0)
    for history in growing(HISTORY):
        conversation = session.view(history).conversation
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(lines) == len(conversation.events) == 2
    assert conversation.events[-1].steps > 1, "the reason goes on, and is not repeated"
    assert all(conversation.key in line for line in lines)
    assert "every step is needed" in lines[0]
    caplog.clear()
    view = session_of(Draft(cites(2))).view(HISTORY)
    (record,) = (record for record in caplog.records if record.levelno == logging.INFO)
    assert "800 → 200 tokens (compressed" in record.getMessage()
    assert view.conversation.key in record.getMessage()
    assert call(1)["id"] not in record.getMessage(), "what was said stays out of the log"


def test_reasons_of_conversations_in_turns_do_not_flood_the_list() -> None:
    session = session_of(Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans))), growth=10.0)
    for _ in range(20):
        session.view(ONE)
        session.view(TWO)
    assert len(session.events) == 4
    assert [event.steps for event in session.events] == [1, 1, 19, 19]
