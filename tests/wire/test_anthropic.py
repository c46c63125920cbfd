"""Anthropic messages, one at a time."""

from typing import Any

import pytest

from focusctx.wire import Kind, Part, Role, Text, wire_named
from focusctx.wire.part import MEDIA_TOKENS, PLACEHOLDER, blanked

WIRE = wire_named("anthropic")
LONG = "a long result that a placeholder is shorter than"
USE = {"type": "tool_use", "id": "t", "name": "look", "input": {"x": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": LONG}
TEXT = {"type": "text", "text": "and hurry"}


def read(role: str, content: Any) -> Part:
    (part,) = WIRE.read({"role": role, "content": content}, 0)
    return part


def test_plain_text_and_blocks_read_alike() -> None:
    for role in ("user", "assistant", "system"):
        assert read(role, "and hurry") == read(role, [TEXT]) == read(role, (TEXT,))


def test_a_turn_with_thinking_text_and_calls() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    part = read("assistant", [thinking, {"type": "redacted_thinking", "data": "d"}, TEXT, USE])
    assert (part.kind, part.thought, part.action) == (Kind.TURN, "hm\nand hurry", 'look({"x": 1})')
    assert part.calls == ("t",)
    assert part.reasons
    assert not read("assistant", [TEXT, USE]).reasons


def test_server_tools_are_the_servers_business() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "found"}]}
    part = read("assistant", [use, result])
    assert (part.calls, part.holds, part.answers) == ((), ("s",), ("s",))
    assert "found" in part.action


def test_results_and_words_in_one_message_are_two_parts() -> None:
    result, words = WIRE.read({"role": "user", "content": [RESULT, TEXT, {**RESULT, "tool_use_id": "u"}]}, 0)
    assert (result.kind, result.answers, result.blocks) == (Kind.RESULT, ("t", "u"), (0, 2))
    assert (words.kind, words.text, words.blocks) == (Kind.WORDS, "and hurry", (1,))


def test_results_alone_are_the_whole_message() -> None:
    part = read("user", [RESULT])
    assert (part.kind, part.text, part.blocks) == (Kind.RESULT, LONG, None)


def test_media_in_results_and_words() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 10_000}}
    assert read("user", [image, TEXT]).extra_tokens == MEDIA_TOKENS
    assert read("user", [{**RESULT, "content": [image, TEXT]}]) == Part(
        Kind.RESULT, text="and hurry", answers=("t",), counted=("and hurry",), extra_tokens=MEDIA_TOKENS
    )


def test_the_skeleton_keeps_ids_errors_marks_and_words() -> None:
    marked = {**RESULT, "is_error": True, "cache_control": {"type": "ephemeral"}}
    message = {"role": "user", "content": [RESULT, marked, TEXT]}
    blank = blanked(WIRE, message, {1})
    assert blank["content"] == [RESULT, {**marked, "content": PLACEHOLDER}, TEXT]
    assert blank["content"][0] is RESULT
    assert blank["content"][2] is TEXT
    assert message["content"][1] is marked
    assert blanked(WIRE, message)["content"][0] == {**RESULT, "content": PLACEHOLDER}


@pytest.mark.parametrize("content", ["ok", "", []])
def test_short_results_stay(content: Any) -> None:
    result = {**RESULT, "content": content}
    assert blanked(WIRE, {"role": "user", "content": [result]})["content"] == [result]


def test_a_result_without_content_gets_none() -> None:
    result = {"type": "tool_result", "tool_use_id": "t"}
    assert blanked(WIRE, {"role": "user", "content": (result,)})["content"] == (result,)
    assert WIRE.texts({"role": "user", "content": [result]}) == (Text(Role.RESULT, "", "t", 0),)


def test_turns_have_no_skeleton_and_text_observations_have() -> None:
    turn = {"role": "assistant", "content": [USE]}
    assert blanked(WIRE, turn) is turn
    for content in (LONG, [{"type": "text", "text": LONG}]):
        assert blanked(WIRE, {"role": "user", "content": content}) == {"role": "user", "content": PLACEHOLDER}
