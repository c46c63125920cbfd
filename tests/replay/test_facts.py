"""What counts as a fact, and what an action was given, in every format."""

from typing import Any

import pytest

from focusctx.config import FocusConfig
from focusctx.pipeline.split import read_history
from focusctx.replay.evidence import arguments, facts_in
from focusctx.types import Span


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("mail ann.lee@example.org now", {"ann.lee@example.org"}),
        ("open ./src/app/main.py and ../up/x.txt", {"src/app/main.py", "../up/x.txt"}),
        ("order #W2378156 on 2024-05-15", {"#W2378156", "2024-05-15"}),
        ("call get_user, then os.path and CamelCase", {"get_user", "os.path", "CamelCase"}),
        ("the 3rd of 250 things, line 250p", set()),
        ("code 4OG6T3 and 4242", {"4OG6T3", "4242"}),
        ("plain words only", set()),
    ],
)
def test_strings_that_must_be_right_to_the_letter(text: str, facts: set[str]) -> None:
    assert facts_in(text) == facts


def test_a_call_gives_the_leaves_of_its_arguments() -> None:
    function = {
        "name": "tool_name",
        "arguments": '{"field_name": ["id_1", {"deep_er": "id_2", "n": 12345}], "x": null}',
    }
    call = {"id": "1", "type": "function", "function": function}
    span = Span(1, messages=({"role": "assistant", "content": "see id_0", "tool_calls": [call]},))
    assert facts_in(arguments(span)) == {"id_1", "id_2", "12345"}


def test_arguments_that_are_no_json_are_taken_as_they_are() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{broken id_1"}}
    assert arguments(Span(1, messages=({"role": "assistant", "tool_calls": [call]},))) == "{broken id_1"


def test_a_text_agent_gives_what_stands_in_its_shell_block() -> None:
    action = "```python\nquoted_name\n```\n```bash\ncat some_file.py\nprint('\\nTotal_x')\n```"
    assert facts_in(arguments(Span(1, action=action))) == {"some_file.py", "Total_x"}
    assert facts_in(arguments(Span(1, action="search[some_name]"))) == {"some_name"}


def test_every_format_gives_the_same() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "id_1"}'}}],
        },
    ]
    responses: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": "id_1"}'},
    ]
    anthropic: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": "id_1"}}]},
    ]
    call = {"type": "tool-call", "toolCallId": "1", "toolName": "tool_name", "input": {"a": "id_1"}}
    ai_sdk: list[dict[str, Any]] = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]}]
    gemini: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "tool_name", "args": {"a": "id_1"}}}]},
    ]
    ollama: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "tool_name", "arguments": {"a": "id_1"}}}]},
    ]
    for messages in (chat, responses, anthropic, ai_sdk, gemini, ollama):
        (span,) = read_history(messages, FocusConfig(), len).spans
        assert facts_in(arguments(span)) == {"id_1"}
