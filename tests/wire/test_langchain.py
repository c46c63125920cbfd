"""LangChain's dumps: what is read in them, what may be shortened, and what is left alone."""

from typing import Any

import pytest

from focusctx import Focus, FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.wire import Role, wire_named

Message = dict[str, Any]
LANGCHAIN = wire_named("langchain")
LONG = "x" * 500


def dump(kind: str, content: Any, **more: Any) -> Message:
    plain = {"additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None, "id": None}
    return {"content": content, **plain, **more}


def call(identity: str = "c1", **args: Any) -> Message:
    return {"name": "look", "args": args, "id": identity, "type": "tool_call"}


def turn(content: Any = "", *calls: Message, **more: Any) -> Message:
    return dump("ai", content, tool_calls=list(calls), **{"invalid_tool_calls": [], "usage_metadata": None, **more})


def result(text: Any, identity: str = "c1", **more: Any) -> Message:
    return dump("tool", text, tool_call_id=identity, **{"artifact": None, "status": "success", **more})


def nested(message: Message) -> Message:
    return {"type": message["type"], "data": message}


def test_a_shortened_result_keeps_its_other_fields() -> None:
    failed = result(["a", {"type": "text", "text": "b"}, {"type": "image", "base64": "aGk="}], status="error")
    (text,) = LANGCHAIN.texts(failed)
    assert (text.role, text.text, text.call, text.media) == (Role.RESULT, "a\nb", "c1", 1)
    assert LANGCHAIN.with_texts(failed, {0: "short"}) == {**failed, "content": "short"}
    assert LANGCHAIN.with_texts(nested(failed), {0: "short"}) == nested({**failed, "content": "short"})


def test_speech_and_long_arguments_may_be_shortened() -> None:
    given = turn("well", call(text=LONG, page=3))
    assert [(text.role, text.text) for text in LANGCHAIN.texts(given)] == [
        (Role.SPEECH, "well"),
        (Role.ARGUMENT, LONG),
    ]
    changed = LANGCHAIN.with_texts(nested(given), {0: "w", 1: "short"})
    assert changed == nested(turn("w", call(text="short", page=3)))


@pytest.mark.parametrize(
    "given",
    [
        turn([{"type": "text", "text": LONG}, {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": LONG}}]),
        turn("", call(text=LONG), additional_kwargs={"tool_calls": [{"id": "c1", "function": {}}]}),
        {**turn("", call(text=LONG)), "type": "AIMessageChunk", "tool_call_chunks": [{"id": "c1", "args": "{"}]},
    ],
)
def test_a_turn_that_holds_its_calls_twice_stays_as_it_is(given: Message) -> None:
    assert LANGCHAIN.texts(given) == ()


def test_calls_in_the_content_are_not_counted_twice() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}
    (part,) = LANGCHAIN.read(turn([{"type": "text", "text": "hm"}, use], call(a=1)), 0)
    assert part.counted == ("hm", 'look({"a": 1})')
    assert (part.calls, part.extra_tokens, part.reasons) == (("c1",), 0, False)


@pytest.mark.parametrize(
    "given",
    [
        turn([{"type": "thinking", "thinking": "hm", "signature": "s"}], call()),
        turn([{"type": "reasoning", "reasoning": "hm"}], call()),
        turn("", call(), additional_kwargs={"reasoning_content": "hm"}),
    ],
)
def test_reasoning_is_seen(given: Message) -> None:
    (part,) = LANGCHAIN.read(given, 0)
    assert part.reasons
    assert part.thought == "hm"


def test_calls_that_could_not_be_parsed_are_calls() -> None:
    broken = [
        {"name": "look", "args": "{", "id": "c2", "error": None, "type": "invalid_tool_call"},
        {"name": "look", "args": "{", "id": None, "error": None, "type": "invalid_tool_call"},
    ]
    (part,) = LANGCHAIN.read(turn("", call(), invalid_tool_calls=broken), 0)
    assert (part.calls, part.made) == (("c1", "c2"), ("look({})", "look({)"))


def test_messages_of_other_types_stay_where_they_are() -> None:
    old = turn("", additional_kwargs={"function_call": {"name": "look", "arguments": "{}"}})
    others = [dump("chat", "x", role="critic"), old, dump("function", LONG, name="look"), dump("remove", "", id="1")]
    history = [dump("human", "go"), *others]
    for page in range(8):
        history += [turn("", call()), result(f"page {page}: " + "a line of it\n" * 80)]
    compressed = Focus("offline", budget=800).compress(history)
    assert compressed.compressed
    assert all(after is before for after, before in zip(compressed.messages[1:5], others, strict=True))


@pytest.mark.parametrize("written", [dict, nested])
def test_a_run_is_recognised_and_compressed(written: Any) -> None:
    history = [dump("system", "You help."), dump("human", "go")]
    for page in range(12):
        text = "\n".join(f"line {line} of page {page}: lot KX-{page * 100 + line} was counted" for line in range(30))
        history += [turn("", call("a"), call("b")), result(text, "b"), result(text, "a")]
    messages = [written(message) for message in history]
    assert len(read_history(messages, FocusConfig(), len).spans) == 12
    compressed = Focus("offline", budget=2000).compress(messages)
    assert compressed.history is not None
    assert compressed.history.format == "langchain"
    assert compressed.tokens_after < 2000
    assert compressed.messages[:2] == messages[:2]
