"""Messages of formats that are not read here are named, with what to do."""

from typing import Any

import pytest

from focusctx import Focus, MessageError
from focusctx.wire import WIRES
from focusctx.wire.foreign import advice_for

FOREIGN: dict[str, list[dict[str, Any]]] = {
    "LangChain messages": [
        {"type": "system", "content": "You help."},
        {"type": "human", "content": "hello " * 2000, "additional_kwargs": {}, "response_metadata": {}},
        {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {}, "id": "a", "type": "tool_call"}]},
        {"type": "tool", "content": "x", "tool_call_id": "a"},
    ],
    "LangChain messages, as messages_to_dict writes them": [
        {"type": "human", "data": {"content": "hello " * 2000, "type": "human"}},
        {"type": "ai", "data": {"content": "x", "type": "ai"}},
    ],
    "LangChain messages, as dumps writes them": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {}},
    ],
    "roles are not OpenAI's": [
        {"role": "human", "content": "hello " * 2000},
        {"role": "ai", "content": "hello"},
    ],
    "ShareGPT": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hello"}],
    "Bedrock Converse": [
        {"role": "user", "content": [{"text": "hello " * 2000}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}]},
    ],
    "the AI SDK": [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "hello " * 2000}]},
        {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "x"}]},
    ],
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("format", [None, "chat_completions"])
def test_a_list_that_is_not_understood_is_an_error_that_names_it(name: str, format: str | None) -> None:
    with pytest.raises(MessageError) as caught:
        Focus("offline", budget=100).compress(FOREIGN[name], format=format)
    if format is None:
        assert name.partition(",")[0] in str(caught.value)


def test_an_unknown_shape_is_described() -> None:
    with pytest.raises(MessageError, match=r"none of the 2 messages is understood: the first has role 'critic'; .*"):
        Focus("offline").compress([{"role": "critic", "content": "x"}, {"role": "poet", "content": "x"}])
    with pytest.raises(
        MessageError, match="the only message is not understood: the first has the fields speaker, type"
    ):
        Focus("offline").compress([{"speaker": "ann", "type": "utterance"}])


@pytest.mark.parametrize("field", ["messages", "contents"])
def test_a_whole_request_is_an_error_that_names_the_list(field: str) -> None:
    with pytest.raises(MessageError, match="got a whole request; pass its 'messages'"):
        Focus("offline").compress({field: FOREIGN["Bedrock Converse"]})  # type: ignore[arg-type]


def test_the_error_names_every_format_that_is_read() -> None:
    with pytest.raises(MessageError) as caught:
        Focus("offline").compress(FOREIGN["roles are not OpenAI's"])
    assert all(wire.title in str(caught.value) for wire in WIRES.values())


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": ""},
        {"type": "reasoning", "summary": []},
        {"id": "msg_1"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
    ],
)
def test_our_own_look_like_no_other(message: dict[str, Any]) -> None:
    assert advice_for(message) is None
