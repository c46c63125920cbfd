"""Nothing is lost: what was left out comes back word for word, and the agent knows how to ask for it."""

import json

import pytest
from anthropic.types import ToolParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from focusctx import Focus, History, Span
from focusctx.errors import ConfigError, StoreError
from focusctx.invariants import violations
from focusctx.pipeline.split import read_history
from focusctx.session.proposal import pinned_recalls
from focusctx.session.recall import TOOL, find, note, query_of, ranges, recall_tool
from focusctx.session.store import MemoryStore
from helpers.histories import Messages, call
from helpers.sdk_types import closed, sdk_errors
from helpers.session_parts import BreakableStore, Draft, cites, growing, moved, session_of, sized
from helpers.stored import span
from strategies import HISTORIES, format_of, json_values

FORMATS = ("chat_completions", "responses", "anthropic")


def compressed(*replies: str, **options: object):
    """A session whose view is without s_1 to s_6, but for what is cited."""
    session = session_of(Draft(replies[0] if replies else cites()), budget=600, **options)  # type: ignore[arg-type]
    session.view(sized(*[100] * 7))
    assert moved(session)
    return session


# ------------------------------------------------------------------------------------------------------ the archive


def test_a_span_comes_back_verbatim():
    session = compressed()
    history = sized(*[100] * 7)
    for number in range(1, 7):
        (found,) = session.recall(f"s_{number}")
        assert list(found.messages) == history[2 * number : 2 * number + 2]
        assert json.dumps(found.messages) == json.dumps(history[2 * number : 2 * number + 2])
        assert (found.index, found.tokens, found.utility) == (number, 100, 0.0)
        assert found.reason == "no sketch needs it"


def test_what_an_agent_does_to_its_messages_later_does_not_reach_the_archive():
    session = session_of(Draft(), budget=600)
    history = sized(*[100] * 7)
    session.view(history)
    history[3]["content"] = "overwritten"
    assert session.recall("s_1")[0].messages[1]["content"] == "x" * 100


def test_the_results_of_a_shared_message_come_back_and_the_words_in_it_never_left():
    """Anthropic: a tool result and the user's words in one message."""
    history: Messages = [{"role": "user", "content": "go"}]
    for number in range(4):
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 100}
        history.append({"role": "assistant", "content": [use]})
        history.append({"role": "user", "content": [result, {"type": "text", "text": f"I say: {number}"}]})
    session = session_of(Draft(), budget=300)
    view = session.view(history)
    (found,) = session.recall("s_1")
    assert found.messages[0] == history[1]
    assert found.messages[1] == {"role": "user", "content": history[2]["content"][:1]}
    assert [f"I say: {number}" in json.dumps(view) for number in range(4)] == [True] * 4


@pytest.mark.parametrize("kind", HISTORIES)
@given(data=st.data())
def test_the_text_of_an_archived_step_is_that_of_the_step(kind, data):
    """It is not stored beside the messages but read from them again, though nobody says in which format they are."""
    history = read_history(data.draw(HISTORIES[kind]), Focus(Draft()).config, len, format=format_of(kind))
    for step in history.spans:
        archived = span("a", messages=step.messages)
        assert archived.text == "\n".join(filter(None, (step.thought, step.action, step.observation)))


@pytest.mark.parametrize("query", ["s_3", "[s_3]", "S3", "s-3", "3", " 3. ", "step s_3, please", '"s_3"'])
def test_an_id_may_be_written_in_many_ways(query):
    archived = [span(f"k{number}", index=number, text=f"text {number * 111}") for number in range(1, 6)]
    assert [each.index for each in find(query, archived)] == [3]


def test_several_ids_bring_several_spans():
    archived = [span(f"k{number}", index=number) for number in range(1, 9)]
    assert [each.index for each in find("s_2, s_4 and s_8", archived)] == [2, 4, 8]


def test_words_are_whole_words():
    texts = ["the token is abc", "tokens were counted", "TOKEN: xyz", "untoken"]
    archived = [span(f"k{number}", index=number, text=text) for number, text in enumerate(texts, 1)]
    assert [each.index for each in find("token", archived)] == [3, 1]
    assert find("tok", archived) == []


def test_the_span_with_most_of_the_words_comes_first_and_no_more_than_three():
    texts = ["order 4711", "order 4712 paid", "order 4711 paid", "order", "paid"]
    archived = [span(f"k{number}", index=number, text=text) for number, text in enumerate(texts, 1)]
    assert [each.index for each in find("Order 4711, paid?", archived)] == [3, 2, 1]


def test_a_number_that_is_no_span_is_a_word():
    archived = [span("a", index=1, text="order 4711"), span("b", index=2, text="order 12")]
    assert [each.index for each in find("4711", archived)] == [1]


def test_recall_reaches_only_what_was_left_out_here():
    session = compressed(cites(3))
    assert session.recall("s_3") == []
    assert "s_1–s_2, s_4–s_6" in session.handle_recall("s_3")


def test_another_tenants_spans_are_out_of_reach():
    store = MemoryStore()
    session_of(Draft(), store, budget=600, tenant="ann").view(sized(*[100] * 7))
    other = session_of(Draft(cites(*range(1, 8))), store, budget=600, tenant="bob")
    other.view(sized(*[100] * 7))
    assert other.recall("s_1") == other.recall("thought") == []


# --------------------------------------------------------------------------------------------------------- the tool


@pytest.mark.parametrize(
    ("format", "kind"),
    [("chat_completions", ChatCompletionToolParam), ("responses", FunctionToolParam), ("anthropic", ToolParam)],
)
def test_the_definition_is_one_the_official_sdk_takes(format, kind):
    definition = session_of(Draft()).recall_tool(format)
    TypeAdapter(closed(kind)).validate_python(definition, strict=True)
    assert json.loads(json.dumps(definition)) == definition
    schema = definition.get("input_schema") or definition.get("parameters") or definition["function"]["parameters"]
    assert schema["required"] == ["query"]


def test_the_definition_for_the_ai_sdk_is_a_function_tool_of_its_models():
    definition = session_of(Draft()).recall_tool("ai_sdk")
    assert definition.keys() == {"type", "name", "description", "inputSchema"}
    assert (definition["type"], definition["name"]) == ("function", "recall_step")
    assert definition["inputSchema"]["required"] == ["query"]


def test_definitions_are_not_shared_and_an_unknown_format_is_said():
    recall_tool()["function"]["parameters"]["properties"].clear()
    assert recall_tool()["function"]["parameters"]["properties"]
    with pytest.raises(ConfigError, match="telegraph"):
        recall_tool("telegraph")


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ('{"query": "s_7"}', "s_7"),
        ({"query": "s_7"}, "s_7"),
        ("s_7", "s_7"),
        ('"s_7"', "s_7"),
        ('{"id": "s_7"}', "s_7"),
        ('{"query": 7}', "7"),
        ('{"query": ["s_7", "s_8"]}', "s_7 s_8"),
        (b'{"query": "s_7"}', "s_7"),
        ("", ""),
        ("{}", ""),
        (None, ""),
        ('{"query": null}', ""),
        ('{"query": "s_7"', '{"query": "s_7"'),
        (b"\xff", "\ufffd"),
    ],
)
def test_arguments_in_any_form(arguments, query):
    assert query_of(arguments) == query


@given(arguments=st.text() | st.binary() | json_values | json_values.map(json.dumps))
def test_odd_arguments_are_answered(arguments):
    assert isinstance(session_of(Draft()).handle_recall(arguments), str)


@pytest.mark.parametrize("arguments", ["[" * 100_000, "9" * 10_000, "s_" + "9" * 5000, "s_0", "\ud800", "\x00", "٣"])
def test_very_odd_arguments_are_answered(arguments):
    assert compressed().handle_recall(arguments).startswith(("Nothing left out", "[s_3]"))


def test_the_answer_is_the_text_of_the_step():
    answer = compressed().handle_recall('{"query": "s_2"}')
    assert answer == f"[s_2]\nthought 2\nlook({{}})\n{'x' * 100}"


def test_a_session_that_has_seen_nothing_says_so():
    session = session_of(Draft())
    assert session.handle_recall('{"query": "s_1"}') == "Nothing left out matches 's_1'. Left out: nothing."
    assert session.recall("s_1") == []


def test_a_store_that_fails_is_told_to_the_agent_and_raised_to_the_program():
    store = BreakableStore()
    session = compressed(store=store)
    store.broken = {"archived", "add"}
    assert "cannot be read at the moment" in session.handle_recall("s_1")
    with pytest.raises(StoreError):
        session.recall("s_1")
    store.broken = {"add"}
    assert session.handle_recall("s_1").startswith("[s_1]")


# --------------------------------------------------------------------------------------------------------- the note


def histories_in(format: str) -> Messages:
    if format == "chat_completions":
        return sized(*[100] * 8)
    if format == "anthropic":
        messages: Messages = [{"role": "user", "content": "Do it."}]
        for number in range(8):
            use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 100}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        return messages
    items: Messages = [{"role": "user", "content": "Do it.", "type": "message"}]
    for number in range(8):
        identity = f"call_{number}"
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": []})
        items.append({"type": "function_call", "call_id": identity, "name": "look", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": identity, "output": "x" * 100})
    return items


@pytest.mark.parametrize("format", FORMATS)
def test_the_note_is_legal_and_stands_only_where_it_should(format):
    history = histories_in(format)
    told, silent = (session_of(Draft(), budget=700, recall=recall) for recall in (True, False))
    assert told.view(history[:-3]) == silent.view(history[:-3]) == history[:-3], "nothing was left out yet"
    view, bare = told.view(history), silent.view(history)
    notes = [message for message in view if TOOL in json.dumps(message)]
    assert notes == [note(range(1, 8), (), "chat_completions")]
    assert [message for message in view if message not in notes] == bare
    assert TOOL not in json.dumps(bare)
    assert violations(view, format) == []
    assert sdk_errors(view, format) == []
    assert view.index(notes[0]) == next(place for place, message in enumerate(view) if message == history[0]) + 1 + (
        format == "chat_completions"
    )


def test_the_note_does_not_move_between_events():
    session = session_of(Draft(), recall=True)
    before: list = []
    for history in growing(sized(*[40] * 60)):
        events = len(moved(session))
        view = session.view(history)
        if len(moved(session)) == events:
            assert json.dumps(view[: len(before)]) == json.dumps(before)
        before = view
    assert len(moved(session)) > 3


def test_ranges_are_short():
    assert ranges([7, 1, 2, 3, 4, 9, 10]) == "s_1–s_4, s_7, s_9–s_10"
    assert ranges([]) == ""


# ---------------------------------------------------------------------------------------------------------- the pin


def test_a_recalled_step_stays_for_five_steps_and_then_may_go():
    spans = [Span(index, action=f"{TOOL}({{}})" if index == 3 else "look({})") for index in range(1, 12)]
    held = [newest for newest in range(3, 12) if pinned_recalls(History("goal", tuple(spans[:newest])))]
    assert held == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("format", FORMATS)
def test_the_call_is_found_in_every_format(format):
    arguments = '{"query": "s_1"}'
    calls: dict[str, Messages] = {
        "chat_completions": [
            {"role": "assistant", "content": None, "tool_calls": [call(9, TOOL, arguments)]},
            {"role": "tool", "tool_call_id": "call_9", "content": "x"},
        ],
        "responses": [
            {"type": "function_call", "call_id": "c", "name": TOOL, "arguments": arguments},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ],
        "anthropic": [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": TOOL, "input": {"query": "s_1"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
        ],
    }
    messages = [{"role": "user", "content": f"go, and mind {TOOL}"}, *calls[format]]
    history = read_history(messages, Focus(Draft()).config, len, format=format)
    assert list(pinned_recalls(history)) == [1]


def test_what_was_recalled_is_not_dropped_again_at_once():
    session = session_of(Draft(), budget=300, recall=True, growth=0.0)
    history = sized(*[100] * 4)
    session.view(history)
    assert len(moved(session)) == 1
    history += [
        {"role": "assistant", "content": None, "tool_calls": [call(5, TOOL, '{"query": "s_1"}')]},
        {"role": "tool", "tool_call_id": "call_5", "content": session.handle_recall('{"query": "s_1"}')},
    ]
    session.view(history)
    stays = []
    for number in range(6, 14):
        history += sized(*[100] * number)[-2:]
        view = session.view(history)
        brought = [message for message in view if message.get("tool_call_id") == "call_5"]
        stays.append(any("[s_1]" in message["content"] for message in brought))
    assert stays == [True] * 5 + [False] * 3
