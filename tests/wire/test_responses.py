"""Responses input items, one at a time."""

from typing import Any

import pytest

from focusctx.wire import Kind, Part, wire_named
from focusctx.wire.part import MEDIA_TOKENS, PLACEHOLDER, blanked

WIRE = wire_named("responses")
LONG = "a long result that a placeholder is shorter than"


def read(item: dict[str, Any]) -> Part:
    (part,) = WIRE.read(item, 0)
    return part


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"role": "user", "content": "x"}, Kind.WORDS),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}, Kind.WORDS),
        ({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, Kind.TURN),
        ({"role": "assistant", "content": "x"}, Kind.TURN),
        ({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]}, Kind.TURN),
        ({"role": "developer", "content": "x"}, Kind.FRAME),
        ({"type": "function_call", "call_id": "a", "name": "x", "arguments": ""}, Kind.TURN),
        ({"type": "web_search_call", "id": "w", "action": {"query": "x"}}, Kind.TURN),
        ({"type": "function_call_output", "call_id": "a", "output": "x"}, Kind.RESULT),
        ({"type": "function_call_output", "call_id": None, "output": "x"}, Kind.FRAME),
        ({"type": "tool_search_output", "call_id": "a", "tools": []}, Kind.RESULT),
        ({"type": "tool_search_output", "tools": []}, Kind.TURN),
        ({"type": "program_output", "call_id": "p", "result": "x"}, Kind.TURN),
        ({"type": "reasoning", "id": "r", "summary": []}, Kind.TURN),
        ({"type": "item_reference", "id": "x"}, Kind.TURN),
        ({"type": None, "id": "x"}, Kind.TURN),
        ({"id": "x"}, Kind.TURN),
        ({"type": "item_reference", "id": "cmp_1"}, Kind.FRAME),
        ({"type": "item_reference"}, Kind.FRAME),
        ({"type": "compaction", "encrypted_content": "x"}, Kind.FRAME),
        ({"type": "something_new", "call_id": "x"}, Kind.FRAME),
    ],
)
def test_kinds(item: dict[str, Any], kind: Kind) -> None:
    assert read(item).kind is kind


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({"type": "function_call", "call_id": "a"}, {"type": "function_call_output", "call_id": "a"}),
        ({"type": "custom_tool_call", "call_id": "a"}, {"type": "custom_tool_call_output", "call_id": "a"}),
        ({"type": "computer_call", "call_id": "a"}, {"type": "computer_call_output", "call_id": "a"}),
        ({"type": "local_shell_call", "id": "l", "call_id": "a"}, {"type": "local_shell_call_output", "id": "a"}),
        ({"type": "local_shell_call", "id": "l", "call_id": "a"}, {"type": "local_shell_call_output", "call_id": "a"}),
        ({"type": "mcp_approval_request", "id": "a"}, {"type": "mcp_approval_response", "approval_request_id": "a"}),
    ],
)
def test_calls_and_outputs_pair_by_their_id(call: dict[str, Any], output: dict[str, Any]) -> None:
    assert read(call).calls == read(output).answers == ("a",)


@pytest.mark.parametrize(
    "kind", ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"]
)
def test_hosted_calls_wait_for_nobody(kind: str) -> None:
    assert read({"type": kind, "id": "x"}).calls == ()


def test_hosted_calls_carry_their_result() -> None:
    item = {"type": "file_search_call", "id": "f", "queries": ["x"], "results": [{"text": "found"}]}
    assert read(item).action == 'file_search_call(["x"])\n[{"text": "found"}]'
    assert read({"type": "mcp_call", "name": "pay", "arguments": "{}", "output": "paid"}).action == "pay({})\npaid"


def test_an_image_that_was_made_is_an_image() -> None:
    part = read({"type": "image_generation_call", "id": "i", "result": "A" * 10_000})
    assert part.extra_tokens == MEDIA_TOKENS
    assert sum(map(len, part.counted)) < 100


def test_a_program_holds_the_step_until_its_output() -> None:
    assert read({"type": "program", "call_id": "p", "code": "1"}).holds == ("p",)
    assert read({"type": "program_output", "call_id": "p", "result": "2"}).answers == ("p",)


def test_reasoning_leads_to_what_follows_and_its_hidden_text_counts() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x" * 400}
    part = read(item)
    assert (part.thought, part.leads, part.reasons, part.extra_tokens) == ("hm", True, True, 100)


@pytest.mark.parametrize(
    ("identity", "reasons", "unseen", "calls"),
    [
        ("rs_1", True, 0, ()),
        ("msg_1", False, 0, ()),
        ("ws_1", False, 0, ()),
        ("fc_1", False, 1, ()),
        ("ctc_1", False, 1, ()),
        ("item_1", False, 1, ()),
        ("rs", False, 1, ()),
        ("mcpr_1", False, 0, ("mcpr_1",)),
    ],
)
def test_the_id_of_a_reference_says_what_it_stands_for(
    identity: str, reasons: bool, unseen: int, calls: tuple[str, ...]
) -> None:
    part = read({"type": "item_reference", "id": identity})
    assert (part.reasons, part.unseen_calls, part.calls) == (reasons, unseen, calls)
    assert part.stored
    assert part.leads


def test_outputs_as_text_blocks_and_json() -> None:
    def output(value: Any) -> Part:
        return read({"type": "function_call_output", "call_id": "a", "output": value})

    assert output("x").text == "x"
    blocks = output([{"type": "input_text", "text": "x"}, {"type": "input_image", "file_id": "f"}])
    assert (blocks.text, blocks.extra_tokens) == ("x", MEDIA_TOKENS)
    assert output([{"stdout": "x"}]).text == '[{"stdout": "x"}]'
    assert output({"stdout": "x"}).text == '{"stdout": "x"}'


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
@pytest.mark.parametrize("output", [LONG, [{"type": "input_text", "text": LONG}]])
def test_the_skeleton_of_an_output(kind: str, output: Any) -> None:
    item = {"type": kind, "call_id": "a", "output": output}
    assert blanked(WIRE, item) == {**item, "output": PLACEHOLDER}
    assert item["output"] is output


def test_a_caller_that_is_no_object_is_no_program() -> None:
    item = {"type": "function_call_output", "call_id": "a", "output": LONG, "caller": "me"}
    assert blanked(WIRE, item)["output"] == PLACEHOLDER


def test_the_skeleton_of_a_screenshot_is_a_smaller_one() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "A" * 10_000}
    blank = blanked(WIRE, {"type": "computer_call_output", "call_id": "a", "output": shot})
    assert blank["output"]["type"] == "computer_screenshot"
    assert len(blank["output"]["image_url"]) < 200


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": LONG},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": LONG},
        {"type": "message", "role": "assistant", "content": LONG},
        {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": LONG}]},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        # The provider may run the program again, over the outputs it got the first time.
        {"type": "function_call_output", "call_id": "a", "output": LONG, "caller": {"type": "program"}},
    ],
)
def test_items_without_a_skeleton(item: dict[str, Any]) -> None:
    assert blanked(WIRE, item) is item
