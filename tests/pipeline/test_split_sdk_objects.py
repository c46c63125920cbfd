"""The loops of the SDKs' own guides, with their objects in the list."""

from typing import Any

from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

from focusctx import Focus, Result
from focusctx.drafts import ScriptedDraft

PLAN = "Step: go on | Depends on: [s_2]"


def compressed(messages: list[Any]) -> Result:
    before = list(messages)
    focus = Focus(ScriptedDraft([PLAN]), budget=1, target=None)
    result = focus.compress(messages)
    assert result.failure is None
    assert result.compressed
    assert messages == before
    assert len(Result.from_json(result.to_json()).messages) == len(result.messages)
    assert focus.compress(messages).messages == result.messages
    return result


def test_chat_messages() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = [ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call]})] * 1
    messages: list[Any] = [{"role": "user", "content": "Look around."}]
    for number in range(4):
        said.append(said[0].model_copy(update={"content": f"look {number}"}))
        messages += [said[-1], {"role": "tool", "tool_call_id": "c", "content": f"seen {number}"}]
    result = compressed(messages)
    assert result.kept == (2, 4)
    assert [message for message in result.messages if not isinstance(message, dict)] == [said[2], said[4]]
    assert result.messages[1] is messages[3]


def test_anthropic_content() -> None:
    messages: list[Any] = [{"role": "user", "content": "Look around."}]
    for number in range(4):
        reply = AnthropicMessage.model_validate(
            {
                "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "tool_use",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
                "content": [{"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}],
            }
        )  # fmt: skip
        results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"seen {number}"}]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    result = compressed(messages)
    assert result.kept == (2, 4)
    assert result.messages[1] is messages[3]


def test_responses_output() -> None:
    messages: list[Any] = [{"role": "user", "content": "Look around."}]
    for number in range(4):
        messages += [
            ResponseReasoningItem(id=f"r{number}", type="reasoning", summary=[], encrypted_content="x"),
            ResponseFunctionToolCall(type="function_call", call_id=f"c{number}", name="look", arguments="{}"),
            {"type": "function_call_output", "call_id": f"c{number}", "output": f"seen {number}"},
        ]
    result = compressed(messages)
    assert result.kept == (2, 4)
    assert result.messages[1] is messages[4]
