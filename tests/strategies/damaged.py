"""What is no history: JSON without sense, and histories with one thing wrong."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from .formats import HISTORIES
from .parts import Draw, booleans

_KEYS = (
    "role", "content", "type", "text", "tool_calls", "tool_call_id", "function_call", "function", "name",
    "arguments", "id", "call_id", "output", "summary", "encrypted_content", "approval_request_id", "action",
    "results", "input", "tool_use_id", "thinking", "cache_control", "source", "reasoning_content", "refusal", "ttl",
    "toolCallId", "toolName", "value", "providerOptions", "providerExecuted", "approvalId",
    "parts", "functionCall", "functionResponse", "response", "args", "thoughtSignature", "thought",
    "tool_name", "images",
)  # fmt: skip
_VALUES = (
    "user", "assistant", "system", "tool", "function", "message", "reasoning", "function_call",
    "function_call_output", "computer_call_output", "mcp_approval_request", "mcp_approval_response",
    "web_search_call", "item_reference", "program", "program_output", "tool_search_output", "text", "tool_use",
    "tool_result", "thinking", "server_tool_use", "web_search_tool_result", "input_text", "image", "call_0",
    "tool-call", "tool-result", "tool-approval-request", "tool-approval-response", "json", "error-text",
    "model", "\ud800", "",
)  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(_VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
"""JSON made of the words the formats know, put together without sense: it gets further in than noise does."""

json_lists = st.lists(st.dictionaries(st.sampled_from(_KEYS), json_values, max_size=6) | json_values, max_size=4)


@st.composite
def damaged_histories(draw: Draw, kind: str) -> list[Any]:
    """A legal history with one value, anywhere in it, taken away or replaced by any other."""
    messages: list[Any] = copy.deepcopy(draw(HISTORIES[kind]))
    holder, key = draw(st.sampled_from(list(_places(messages))))
    if isinstance(holder, dict) and draw(booleans):
        del holder[key]
    else:
        holder[key] = draw(json_values)
    return messages


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value that holds another."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield value, key
        yield from _places(inner)
