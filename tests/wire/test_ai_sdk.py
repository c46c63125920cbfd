"""Messages of the AI SDK, one at a time."""

from typing import Any

import pytest

from focusctx import Focus
from focusctx.drafts.scripted import ScriptedDraft
from focusctx.errors import MessageError
from focusctx.wire import Kind, Part, Role, Text, wire_named
from focusctx.wire.part import MEDIA_TOKENS, PLACEHOLDER, blanked

WIRE = wire_named("ai_sdk")
LONG = "a long result that a placeholder is shorter than"
OPTIONS = {"providerOptions": {"anthropic": {"cacheControl": {"type": "ephemeral"}}}}
CALL = {"type": "tool-call", "toolCallId": "t", "toolName": "look", "input": {"x": 1}, **OPTIONS}
RESULT = {"type": "tool-result", "toolCallId": "t", "toolName": "look", "output": {"type": "text", "value": LONG}}
TEXT = {"type": "text", "text": "and hurry"}
FILE = {"type": "file", "data": "A" * 10_000, "mediaType": "image/png"}


def read(role: str, content: Any) -> Part:
    (part,) = WIRE.read({"role": role, "content": content}, 0)
    return part


def result(output: Any) -> dict[str, Any]:
    return {"role": "tool", "content": [{**RESULT, "output": output}]}


def test_plain_text_and_parts_read_alike() -> None:
    for role in ("user", "assistant", "system"):
        assert read(role, "and hurry") == read(role, [TEXT])
    assert read("system", "x").static
    assert read("user", [TEXT, FILE]).extra_tokens == MEDIA_TOKENS


def test_a_turn_with_reasoning_text_and_calls() -> None:
    part = read("assistant", [{"type": "reasoning", "text": "hm"}, TEXT, CALL])
    assert (part.kind, part.thought, part.action) == (Kind.TURN, "hm\nand hurry", 'look({"x": 1})')
    assert (part.calls, part.made, part.reasons) == (("t",), ('look({"x": 1})',), True)
    assert not read("assistant", [TEXT, CALL]).reasons


def test_a_call_that_the_provider_answers_waits_for_nobody() -> None:
    served = {**CALL, "providerExecuted": True}
    for content in ([served, RESULT], [CALL, RESULT]):
        part = read("assistant", content)
        assert (part.calls, part.holds, part.answers) == ((), ("t",), ("t",))
        assert LONG in part.action


@pytest.mark.parametrize(
    ("output", "text", "media", "shortened"),
    [
        ({"type": "text", "value": LONG}, LONG, 0, {"type": "text"}),
        ({"type": "json", "value": {"a": [1]}}, '{"a": [1]}', 0, {"type": "text"}),
        ({"type": "json", "value": None}, "", 0, {"type": "text"}),
        ({"type": "error-text", "value": "no"}, "no", 0, {"type": "error-text"}),
        ({"type": "error-json", "value": {"e": 1}}, '{"e": 1}', 0, {"type": "error-text"}),
        ({"type": "content", "value": [TEXT, FILE], **OPTIONS}, "and hurry", 1, {"type": "text", **OPTIONS}),
    ],
)
def test_outputs_of_every_type(output: Any, text: str, media: int, shortened: Any) -> None:
    part = read("tool", [{**RESULT, "output": output}])
    assert (part.kind, part.text, part.answers) == (Kind.RESULT, text, ("t",))
    assert part.extra_tokens == media * MEDIA_TOKENS
    assert WIRE.texts(result(output)) == (Text(Role.RESULT, text, "t", 0, media),)
    assert WIRE.with_texts(result(output), {0: "cut"}) == result({**shortened, "value": "cut"})


def test_a_denied_call_keeps_its_type() -> None:
    denied = {"type": "execution-denied", "reason": "not now"}
    assert read("tool", [{**RESULT, "output": denied}]).text == "not now"
    assert WIRE.with_texts(result(denied), {0: "no"}) == result({**denied, "reason": "no"})


def test_arguments_and_speech_are_shortened_in_place() -> None:
    call = {**CALL, "input": {"body": "x" * 500, "to": "a"}}
    message = {"role": "assistant", "content": [TEXT, call], **OPTIONS}
    assert [text.role for text in WIRE.texts(message)] == [Role.SPEECH, Role.ARGUMENT]
    changed = WIRE.with_texts(message, {1: "x…"})
    assert changed == {"role": "assistant", "content": [TEXT, {**call, "input": {"body": "x…", "to": "a"}}], **OPTIONS}
    assert changed["content"][0] is TEXT


def test_calls_can_go_and_leave_a_mark() -> None:
    other = {**CALL, "toolCallId": "u"}
    message = {"role": "assistant", "content": [TEXT, CALL, other], **OPTIONS}
    left = WIRE.without_calls(message, {"t"}, "gone")
    assert left == {"role": "assistant", "content": [TEXT, {"type": "text", "text": "gone"}, other], **OPTIONS}
    assert WIRE.without_calls(message, {"t", "u"}, "gone") is None
    assert WIRE.without_calls({"role": "assistant", "content": "x"}, {"t"}, "gone") is None


def test_a_turn_that_asks_for_approval_stays_as_it_is() -> None:
    request = {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "t"}
    assert read("assistant", [CALL, request]).reasons
    response = {"type": "tool-approval-response", "approvalId": "p", "approved": True}
    assert read("tool", [response]) == Part(Kind.RESULT)


def test_blanked_results_keep_everything_else() -> None:
    assert blanked(WIRE, result({"type": "text", "value": LONG})) == result({"type": "text", "value": PLACEHOLDER})
    turn = {"role": "assistant", "content": [CALL]}
    assert blanked(WIRE, turn) is turn
    for content, blank in ((LONG, PLACEHOLDER), ([{"type": "text", "text": LONG}], [{**TEXT, "text": PLACEHOLDER}])):
        assert blanked(WIRE, {"role": "user", "content": content}) == {"role": "user", "content": blank}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "tool", "content": "x"}, "list of 'tool-result' parts"),
        ({"role": "tool", "content": [{**RESULT, "toolCallId": 3}]}, "'toolCallId' of a 'tool-result' part"),
        ({"role": "assistant", "content": [{**CALL, "toolCallId": None}]}, "'toolCallId' of a 'tool-call' part"),
    ],
)
def test_malformed_messages_are_named(message: dict[str, Any], problem: str) -> None:
    with pytest.raises(MessageError, match=problem):
        WIRE.read(message, 0)


def test_a_long_run_is_recognised_and_compressed() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Sum up the log."}]
    for number in range(20):
        call = {**CALL, "toolCallId": f"c{number}"}
        output = {"type": "text", "value": f"page {number}\n" + "nothing happened on this line\n" * 60}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "tool", "content": [{**RESULT, "toolCallId": f"c{number}", "output": output}]})
    result = Focus(ScriptedDraft(["[s_20] | Step: end | Depends on: [s_20]"]), budget=2000).compress(messages)
    assert result.compressed
    assert result.history is not None
    assert result.history.format == "ai_sdk"
    assert result.tokens_after < result.tokens_before // 2
    assert result.messages[-1] is messages[-1]
