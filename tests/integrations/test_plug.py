"""Shared by the integrations: whose session a call gets, retries, the way back, and what happens when it fails."""

import asyncio
import copy
import json
import logging
import pickle
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import focusctx.integrations
from focusctx import ConfigError, Focus, MessageError
from focusctx.integrations.mini_swe_agent import FocusModel
from focusctx.integrations.plug import Caller, Plug, as_written, fail_open, places, plugged
from focusctx.session.session import Session
from focusctx.session.store import Totals
from focusctx.session.stores import store_from
from helpers.session_parts import WHOLE_STEPS, Draft, crosses, everything, growing, moved, session_of, sized

CHAT = "chat_completions"
FOLDER = Path(focusctx.integrations.__file__).parent
SHARED = {"__init__", "plug"}
INTEGRATIONS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def focus_of(draft: Any = None, **settings: Any) -> Focus:
    return Focus(draft or Draft(), **{"budget": 300, "tokens": crosses, **WHOLE_STEPS, **settings})


def session_for(caller: Caller) -> Session:
    return focus_of().session(tenant=caller.tenant)


def tenant_of(caller: Caller) -> str:
    return "acme"


ME = Caller(framework="a test")


# ------------------------------------------------------------------------------------------------- whose session it is


def test_conversations_share_a_session_and_nothing_else() -> None:
    plug = Plug(focus_of())
    one, other = sized(*[100] * 5), sized(*[100] * 5, name=" again")
    for history, another in zip(growing(one), growing(other), strict=True):
        plug.view(history, CHAT, ME)
        plug.view(another, CHAT, ME)
    assert len(plug.conversations) == 2
    assert all(any(event.happened for event in conversation.events) for conversation in plug.conversations)
    assert plug.savings == plug.conversations[0].savings + plug.conversations[1].savings
    assert len(plug.events) == sum(len(conversation.events) for conversation in plug.conversations)


def test_a_focus_takes_the_prices_of_the_model_that_is_called() -> None:
    plug = Plug(focus_of())
    plug.view(sized(*[100] * 5), CHAT, Caller(model="gpt-4.1"))
    plug.view(sized(*[100] * 5), CHAT, Caller(model="nobody knows"))
    priced, unpriced = plug.events
    assert priced.verdict is not None
    assert unpriced.verdict is None


def test_a_function_makes_a_session_for_each_tenant_and_model() -> None:
    callers: list[Caller] = []

    def make(caller: Caller) -> Session:
        callers.append(caller)
        return focus_of().session(tenant=caller.tenant)

    plug = Plug(make)
    for tenant, model, name in (("a", "m", "1"), ("a", "m", "2"), ("b", "m", "1"), ("b", "n", "1"), ("a", "m", "1")):
        plug.view(sized(10), CHAT, Caller(tenant, name, model, "a test"))
    assert callers == [Caller(tenant, None, model, "a test") for tenant, model in (("a", "m"), ("b", "m"), ("b", "n"))]
    assert sorted((one.tenant, one.id) for one in plug.conversations) == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
        ("b", "1"),
    ]


def test_two_tenants_with_the_same_words_have_nothing_in_common(tmp_path: Path) -> None:
    url, tenant = f"sqlite:///{tmp_path / 'focus.db'}", "acme"
    focus = focus_of()
    plug = Plug(lambda caller: focus.session(url, tenant=caller.tenant), lambda caller: tenant)
    history = sized(*[100] * 5)
    assert len(plug.view(history, CHAT, ME)) < len(history)
    tenant = "globex"
    assert plug.view(history[:6], CHAT, ME) == history[:6]  # acme's decision is not followed
    one, other = sorted(plug.conversations, key=lambda conversation: conversation.tenant)
    assert (one.tenant, other.tenant) == ("acme", "globex")
    assert one.key != other.key
    assert one.recall("s_1")
    assert not other.recall("s_1")
    assert not other.events
    assert other.savings == Totals()
    plug.close()
    store = store_from(url)
    assert store.totals("acme").events == 1
    assert (store.totals("globex"), store.recent("globex", 9)) == (Totals(), [])
    store.close()


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_call_whose_tenant_has_no_name_gets_no_view(name: Any) -> None:
    with pytest.raises(ConfigError, match="must return the tenant's name"):
        Plug(focus_of(), lambda caller: name).view(sized(10), CHAT, ME)


def test_a_session_of_another_tenant_is_refused() -> None:
    for source in (session_of(Draft()), lambda caller: session_of(Draft())):
        with pytest.raises(ConfigError, match=r"tenant 'acme' got a session of tenant .*tenant=caller.tenant"):
            Plug(source).view(sized(10), CHAT, Caller(tenant="acme"))


def test_a_session_takes_all_calls() -> None:
    session = session_of(Draft())
    plug = Plug(session)
    for name in (" one", " two"):
        plug.view(sized(*[100] * 5, name=name), CHAT, ME)
    plug.close()  # it is not the plug's to close
    plug.view(sized(*[100] * 5, name=" three"), CHAT, ME)
    assert len(moved(session)) == 3
    assert (plug.events, plug.savings) == (list(session.events), session.savings)


def test_a_plug_can_be_shared() -> None:
    plug = Plug(focus_of())
    assert plugged(plug) is plug
    with pytest.raises(ConfigError, match="leave tenant= out"):
        plugged(plug, lambda caller: "acme")


@pytest.mark.parametrize("has_id", [True, False])
def test_two_hundred_conversations_in_turns(has_id: bool) -> None:
    """Each goes on from its own view: the prefix moves at its own events only."""
    plug = Plug(focus_of())
    histories = [growing(sized(*[100] * 5, name="" if has_id else f" {number}")) for number in range(200)]
    last: list[list[Any]] = [[] for _ in histories]
    changes = 0
    for step in range(len(histories[0])):
        for number, history in enumerate(histories):
            view = plug.view(history[step], CHAT, replace(ME, id=str(number) if has_id else None))
            changes += view[: len(last[number])] != last[number]
            last[number] = list(view)
    assert len(plug.conversations) == 200
    assert changes == sum(event.happened for one in plug.conversations for event in one.events) >= 200


@pytest.mark.parametrize("wrong", [None, "offline", 7])
def test_anything_else_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="a Focus, a Session or a function"):
        Plug(wrong)


def test_a_function_without_an_argument_is_told_the_new_form() -> None:
    with pytest.raises(ConfigError, match=r"lambda caller: focus.session\(store, tenant=caller.tenant"):
        Plug(lambda: session_of(Draft()))  # type: ignore[arg-type]


def test_a_session_with_a_tenant_of_its_own_takes_no_tenant() -> None:
    with pytest.raises(ConfigError, match="a Session has one tenant"):
        Plug(session_of(Draft()), lambda caller: "acme")


def test_a_function_that_makes_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="must return a Session"):
        Plug(lambda caller: 7).view(sized(10), CHAT, ME)  # type: ignore[arg-type, return-value]


def test_events_and_refusals_are_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    plug = Plug(focus_of())
    with caplog.at_level(logging.INFO, "focusctx"):
        plug.view(sized(*[100] * 5), CHAT, ME)
        Plug(focus_of(Draft(everything))).view(sized(*[100] * 5), CHAT, ME)
    moved_line, refused_line = caplog.messages
    assert "500 → " in moved_line
    assert "left unchanged (" in refused_line


# ------------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_tried_again_sends_the_same_and_asks_nobody(is_async: bool) -> None:
    def fail(prompt: Any) -> str:
        raise ConnectionError("no draft today")

    draft = Draft(fail)
    plug = Plug(session_of(draft, ahead=1))
    history = sized(*[100] * 5)

    def view(messages: list[Any]) -> list[Any]:
        return asyncio.run(plug.aview(messages, CHAT, ME)) if is_async else plug.view(messages, CHAT, ME)

    first = view(history)
    calls = draft.calls
    first.append("what a client does to its list")
    assert view([dict(message) for message in history]) == history
    assert draft.calls == calls > 0
    history += sized(100)[2:]  # the same list, grown
    assert view(history) == history


def test_a_call_that_is_tried_again_gets_its_own_objects_back() -> None:
    """Frameworks translate anew at every attempt, and find their messages by identity."""
    plug = Plug(session_of(Draft()))
    history = sized(*[100] * 5)
    first = plug.view(history, CHAT, ME)
    again = [dict(message) for message in history]
    assert plug.view(again, CHAT, ME) == first != history
    assert None not in places(again, plug.view(again, CHAT, ME))


# -------------------------------------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("source", [focus_of, lambda: session_of(Draft()), lambda: lambda caller: session_of(Draft())])
def test_a_copy_of_an_agent_goes_on_with_what_was_decided(copied: Any, source: Any) -> None:
    agent = SimpleNamespace(plug=Plug(source()), instructions=["Do it."])
    history = sized(*[100] * 5)
    first = agent.plug.view(history, CHAT, ME)
    assert len(first) < len(history)
    view = copied(agent).plug.view([*history, *sized(10)[2:]], CHAT, ME)
    assert view[: len(first)] == first


@pytest.mark.parametrize("source", [Focus("offline", budget=300), session_for])
def test_a_pickled_plug_compresses_alike(source: Any) -> None:
    plug = pickle.loads(pickle.dumps(Plug(source, tenant_of)))
    plug.view(sized(10), CHAT, ME)
    assert [conversation.tenant for conversation in plug.conversations] == ["acme"]


def test_a_session_cannot_be_pickled() -> None:
    with pytest.raises(ConfigError, match="give the integration a Focus"):
        pickle.dumps(Plug(session_of(Draft())))


def test_a_wrapped_model_can_be_copied() -> None:
    """It hands on whatever it is asked for, but not what a copy in the making is asked for."""

    class Model:
        config = SimpleNamespace(model_name="gpt-4.1")

        def __deepcopy__(self, memo: Any) -> "Model":
            return Model()

    focused = FocusModel(Model(), focus_of())
    for copied in (copy.copy(focused), copy.deepcopy(focused)):
        assert type(copied) is FocusModel
        assert copied.config.model_name == "gpt-4.1"
    with pytest.raises(AttributeError, match="temperature"):
        _ = focused.temperature


# ------------------------------------------------------------------------------------------------------- the way back


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("recall", [False, True])
def test_every_message_of_a_view_is_found_again(levels: bool, recall: bool) -> None:
    history = sized(*[400] * 6)
    session = focus_of(budget=1500, levels=levels, target=0.5 if levels else None).session(recall=recall)
    view = session.view(history)
    assert moved(session)
    found = places(history, view)
    assert [place for place in found if place is None] == [None] * recall
    known = [place for place in found if place is not None]
    assert known == sorted(set(known))
    for message, place in zip(view, found, strict=True):
        if place is None:
            assert message["content"].startswith("[Left out")
        else:
            assert {**message, "content": ""} == {**history[place], "content": ""}
            assert levels or message is history[place]
    assert any(message not in history for message in without_note(view)) == levels


def without_note(view: list[Any]) -> list[Any]:
    return [message for message in view if not str(message["content"]).startswith("[Left out")]


def test_turns_that_an_integration_made_stay_as_the_model_wrote_them() -> None:
    """A framework's own turn cannot lose some of its calls, its words or the middle of an argument."""
    history: list[Any] = [{"role": "user", "content": "Do it."}]
    for number in range(1, 8):
        arguments = json.dumps({"path": f"{number}.py", "text": "x and more words, " * 60})
        calls = [
            {"id": f"{number}_{n}", "type": "function", "function": {"name": "read", "arguments": arguments}}
            for n in range(3)
        ]
        history.append({"role": "assistant", "content": "I think that x is so. " * 40, "tool_calls": calls})
        history += [{"role": "tool", "tool_call_id": one["id"], "content": "x in a line\n" * 90} for one in calls]
    focus = focus_of(Draft(everything), levels=True, target=0.75, tokens=len, budget=50_000)
    plain = focus.session().view(history)
    assert any(message["role"] == "assistant" and message not in history for message in plain), "it can fail"
    view = (
        focus_of(Draft(everything), levels=True, target=0.75, tokens=len, budget=50_000)
        .session()
        .view(as_written(history))
    )
    turns = [message for message in view if message["role"] == "assistant"]
    assert turns
    assert all(any(turn is message for message in history) for turn in turns)
    assert any("[…" in message["content"] for message in view if message["role"] == "tool")
    assert None not in places(history, view)


def test_a_view_of_something_else_is_refused() -> None:
    """Rather than sent as what it is not."""
    with pytest.raises(MessageError, match="not in the history"):
        places(sized(1, 2), sized(*range(3, 9))[4:])


# ------------------------------------------------------------------------------------------------------------- failing


def test_what_fails_inside_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    sent = "all of it"
    with caplog.at_level(logging.WARNING, "focusctx"), fail_open():
        sent = str(1 / 0)
    assert sent == "all of it"
    assert "passed on uncompressed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


# mini-swe-agent's models are duck-typed: there is nothing to import.
@pytest.mark.parametrize("name", [name for name in INTEGRATIONS if name != "mini_swe_agent"])
def test_a_missing_framework_is_named(name: str) -> None:
    """With nothing installed but focusctx and the standard library."""
    code = f"""
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {{"focusctx"}}:
            raise ModuleNotFoundError(name)
import focusctx
sys.meta_path.insert(0, Nothing())
try:
    import focusctx.integrations.{name}
except focusctx.MissingExtraError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    extra = name.replace("_", "-")
    assert f"focusctx[{extra}]" in said
    assert extra in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
