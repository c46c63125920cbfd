"""Chat Completions messages, one at a time."""

from typing import Any

import pytest

from focusctx.wire import Kind, Part, wire_named
from focusctx.wire.part import MEDIA_TOKENS, PLACEHOLDER, blanked
from helpers.histories import call

WIRE = wire_named("chat_completions")
LONG = "a long result that a placeholder is shorter than"


def read(message: dict[str, Any]) -> Part:
    (part,) = WIRE.read(message, 0)
    return part


@pytest.mark.parametrize(
    ("role", "kind", "static"),
    [
        ("system", Kind.FRAME, True),
        ("developer", Kind.FRAME, True),
        ("user", Kind.WORDS, False),
        ("assistant", Kind.TURN, False),
        ("tool", Kind.RESULT, False),
        ("exit", Kind.FRAME, False),  # recorders have roles of their own
    ],
)
def test_roles(role: str, kind: Kind, static: bool) -> None:
    part = read({"role": role, "content": "x", "tool_call_id": "a"})
    assert (part.kind, part.static, part.counted) == (kind, static, ("x",))


def test_calls_in_parallel_of_both_kinds() -> None:
    custom = {"id": "b", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    part = read({"role": "assistant", "content": "so", "tool_calls": [call(1), custom]})
    assert part.calls == ("call_1", "b")
    assert part.action == "look({})\nsql(select 1)"
    assert part.counted == ("so", "look({})", "sql(select 1)")


def test_null_and_missing_fields_are_no_text() -> None:
    for message in ({"role": "assistant"}, {"role": "assistant", "content": None, "tool_calls": None, "refusal": None}):
        assert read(message) == Part(Kind.TURN)


def test_a_legacy_call_and_its_result_share_the_functions_name() -> None:
    turn = read({"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}})
    assert turn.calls == read({"role": "function", "name": "look", "content": "x"}).answers
    assert turn.action == "look({})"


def test_refusals_and_hidden_reasoning_are_thought() -> None:
    assert read({"role": "assistant", "content": None, "refusal": "no"}).thought == "no"
    assert read({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}).thought == "no"
    assert read({"role": "assistant", "content": "a", "reasoning_content": "b"}).thought == "b\na"
    assert read({"role": "assistant", "content": "a", "reasoning": "b"}).counted == ("b", "a")


def test_media_count_by_the_piece() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "image_url"}, {"type": "input_audio"}, {"type": "file"}]
    assert read({"role": "user", "content": parts}).extra_tokens == 3 * MEDIA_TOKENS
    assert read({"role": "assistant", "audio": {"id": "a"}}).extra_tokens == MEDIA_TOKENS


@pytest.mark.parametrize("content", [LONG, [{"type": "text", "text": LONG}]])
@pytest.mark.parametrize("rest", [{"role": "tool", "tool_call_id": "a"}, {"role": "function", "name": "look"}])
def test_the_skeleton_of_a_result_keeps_all_but_its_text(content: Any, rest: dict[str, Any]) -> None:
    message = {**rest, "content": content}
    assert blanked(WIRE, message) == {**rest, "content": PLACEHOLDER}
    assert message["content"] is content


def test_turns_and_short_results_have_no_skeleton() -> None:
    turn = {"role": "assistant", "content": LONG, "tool_calls": [call(1)]}
    assert blanked(WIRE, turn) is turn
    for short in ("ok", "", None):
        assert blanked(WIRE, {"role": "function", "name": "look", "content": short})["content"] == short
