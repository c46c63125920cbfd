"""When the tool is offered, and what a later round's request looks like."""

import json
from typing import Any

import pytest

from focusctx.proxy.recall.rounds import next_round, offer
from focusctx.proxy.request import Fields, encode, read_fields, write_fields
from focusctx.session.recall import TOOL, recall_tool
from proxy.recall.harness import FORMATS, TASK

OWN = {
    "chat_completions": {"type": "function", "function": {"name": "look", "parameters": {}}},
    "responses": {"type": "function", "name": "look", "parameters": {}},
    "anthropic": {"name": "look", "input_schema": {}, "cache_control": {"type": "ephemeral"}},
}

every_format = pytest.mark.parametrize("format", FORMATS)


def fields(format: str, **changes: Any) -> Fields:
    history = "input" if format == "responses" else "messages"
    request = {"model": "m", history: [TASK], "tools": [OWN[format]], **changes}
    return {name: encode(value) for name, value in request.items()}


@every_format
@pytest.mark.parametrize("choice", [None, "auto", "required"])
def test_it_is_offered_to_agents_that_use_tools(format: str, choice: str | None) -> None:
    chosen: Any = {"type": {"required": "any"}.get(choice, choice)} if format == "anthropic" and choice else choice
    request = fields(format, tool_choice=chosen, n=1, stream=True, store=True)
    changed = offer(request, format)
    assert changed is not None
    assert list(changed) == ["tools"]
    assert json.loads(changed["tools"]) == [OWN[format], recall_tool(format)]
    assert changed["tools"].startswith(request["tools"][:-1]), "the agent's own tools stay as they were spelled"


@pytest.mark.parametrize(
    ("format", "changes"),
    [
        *((each, {"tools": []}) for each in FORMATS),
        *((each, {"tools": "look"}) for each in FORMATS),
        *((each, {"tools": [OWN[each], recall_tool(each)]}) for each in FORMATS),
        ("chat_completions", {"n": 2}),
        ("chat_completions", {"tool_choice": "none"}),
        ("chat_completions", {"tool_choice": {"type": "function", "function": {"name": "look"}}}),
        ("chat_completions", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}),
        ("responses", {"tool_choice": "none"}),
        ("responses", {"tool_choice": {"type": "function", "name": "look"}}),
        ("responses", {"previous_response_id": "resp_1"}),
        ("responses", {"conversation": "conv_1"}),
        ("responses", {"background": True}),
        ("anthropic", {"thread": {"type": "create"}}),
        ("anthropic", {"tool_choice": {"type": "none"}}),
        ("anthropic", {"tool_choice": {"type": "tool", "name": "look"}}),
    ],
)
def test_it_is_not_offered_where_it_has_no_place(format: str, changes: dict[str, Any]) -> None:
    assert offer(fields(format, **changes), format) is None


@every_format
def test_agents_without_tools_are_left_alone(format: str) -> None:
    request = fields(format)
    del request["tools"]
    assert offer(request, format) is None


@every_format
@pytest.mark.parametrize("offered", [True, False])
def test_a_later_round_has_the_same_beginning(format: str, offered: bool) -> None:
    request = fields(format)
    request |= offer(request, format) or {}
    extra = [{"role": "assistant", "content": "half a pair: \ud83d"}]
    later = next_round(request, format, extra, offer_tool=offered)
    history = "input" if format == "responses" else "messages"
    assert later[history].startswith(request[history][:-1])
    assert json.loads(later[history]) == [TASK, *extra]
    assert (TOOL.encode() in later["tools"]) == offered
    if not offered:
        assert later["tools"] == fields(format)["tools"]
    assert {name: value for name, value in later.items() if name not in (history, "tools")} == {"model": b'"m"'}
    assert read_fields(write_fields(later)) is not None
