"""What the integrations share: whose session a call gets, retries, the way back, and what happens when it fails."""

import asyncio
import copy
import logging
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import focusctx.integrations
from focusctx import ConfigError, Focus, MessageError
from focusctx.integrations.mini_swe_agent import FocusModel
from focusctx.integrations.plug import Plug, fail_open, places
from focusctx.session.session import Session
from session_parts import Draft, crosses, growing, moved, session_of, sized

CHAT = "chat_completions"
FOLDER = Path(focusctx.integrations.__file__).parent
SHARED = {"__init__", "plug", "sessions", "parts", "subclass", "langchain_messages", "llama_index_transcript"}
SHARED |= {"google_adk_steps", "openai_agents_nested"}
INTEGRATIONS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def focus_of(draft: Any = None, **settings: Any) -> Focus:
    return Focus(draft or Draft(), budget=300, tokens=crosses, **settings)


# ------------------------------------------------------------------------------------------------- whose session it is


def test_a_focus_gives_each_conversation_a_session() -> None:
    made: list[Session] = []

    class Watched(Focus):
        def session(self, *args: Any, **options: Any) -> Session:
            made.append(super().session(*args, **options))
            return made[-1]

    plug = Plug(Watched(Draft(), budget=300, tokens=crosses))
    one, other = sized(*[100] * 5), sized(*[100] * 5, name=" again")
    for history, another in zip(growing(one), growing(other), strict=True):
        assert len(plug.view(history, CHAT)) <= len(history)
        plug.view(another, CHAT)
    assert len(made) == 2
    assert all(moved(session) for session in made)


def test_a_focus_takes_the_prices_of_the_model_that_is_called() -> None:
    plug = Plug(focus_of())
    history = sized(*[100] * 5)
    plug.view(history, CHAT, model="gpt-4.1")
    run = next(iter(plug._runs.values()))
    assert run.session.events[-1].verdict is not None


def test_a_function_makes_a_session_per_conversation() -> None:
    made: list[Session] = []

    def make() -> Session:
        made.append(session_of(Draft()))
        return made[-1]

    plug = Plug(make)
    plug.view(sized(10), CHAT)
    plug.view(sized(10, 10), CHAT)
    plug.view(sized(10, name=" else"), CHAT)
    assert len(made) == 2


def test_a_session_takes_all_calls() -> None:
    session = session_of(Draft())
    plug = Plug(session)
    for name in (" one", " two"):
        plug.view(sized(*[100] * 5, name=name), CHAT)
    assert len(moved(session)) == 2


def test_sessions_of_old_conversations_are_let_go() -> None:
    plug = Plug(focus_of())
    for number in range(200):
        plug.view(sized(10, name=f" {number}"), CHAT)
    assert len(plug._runs) == 128


@pytest.mark.parametrize("wrong", [None, "offline", 7])
def test_anything_else_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="a Focus, a Session or a function"):
        Plug(wrong)


# ------------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_tried_again_sends_the_same_and_asks_nobody(is_async: bool) -> None:
    def fail(prompt: Any) -> str:
        raise ConnectionError("no draft today")

    draft = Draft(fail)
    plug = Plug(session_of(draft, ahead=1))
    history = sized(*[100] * 5)

    def view(messages: list[Any]) -> list[Any]:
        return asyncio.run(plug.aview(messages, CHAT)) if is_async else plug.view(messages, CHAT)

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
    first = plug.view(history, CHAT)
    again = [dict(message) for message in history]
    assert plug.view(again, CHAT) == first != history
    assert None not in places(again, plug.view(again, CHAT))


# -------------------------------------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("source", [focus_of, lambda: session_of(Draft()), lambda: lambda: session_of(Draft())])
def test_a_copy_of_an_agent_goes_on_with_what_was_decided(copied: Any, source: Any) -> None:
    agent = SimpleNamespace(plug=Plug(source()), instructions=["Do it."])
    history = sized(*[100] * 5)
    first = agent.plug.view(history, CHAT)
    assert len(first) < len(history)
    view = copied(agent).plug.view([*history, *sized(10)[2:]], CHAT)
    assert view[: len(first)] == first


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


@pytest.mark.parametrize("dropped", ["remove", "skeleton"])
@pytest.mark.parametrize("recall", [False, True])
def test_every_message_of_a_view_is_found_again(dropped: Any, recall: bool) -> None:
    history = sized(*[100] * 6)
    session = focus_of(dropped=dropped).session(recall=recall)
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
            assert dropped == "skeleton" or message is history[place]
    assert (len(known) == len(history)) == (dropped == "skeleton")


def test_so_it_is_where_some_steps_are_gone_and_of_others_a_skeleton_is_left() -> None:
    history = sized(*[100] * 6)
    history[4]["tool_calls"][0]["function"]["arguments"] = '"src/ledger.py"'
    view = focus_of().session().view(history)
    assert places(history, view) == [0, 1, 4, 5, 12, 13]
    assert view[3]["content"] == "[output omitted]"


def test_a_view_of_something_else_is_refused() -> None:
    """Rather than sent as what it is not."""
    with pytest.raises(MessageError, match="not given"):
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
