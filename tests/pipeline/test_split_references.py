"""Items that are given by reference belong to the step they stand in, or to none that may be dropped."""

from typing import Any

import pytest

from focusctx import FocusConfig
from focusctx.pipeline.split import Reader
from focusctx.wire import wire_named
from pipeline.reading import read

USER = {"role": "user", "content": "go"}


def reference(identity: str) -> dict[str, Any]:
    return {"type": "item_reference", "id": identity}


def call(identity: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": identity, "name": "look", "arguments": "{}", **more}


def output(identity: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identity, "output": "x"}


def test_references_go_with_the_call_they_led_to() -> None:
    history = read(
        [
            USER,
            *(reference("rs_1"), reference("msg_1"), call("a"), output("a")),
            *(reference("rs_2"), call("b"), call("c"), output("c"), output("b")),
            *(reference("msg_3"), call("d"), output("d")),
        ]
    )
    assert history.owners == (0, *[1] * 4, *[2] * 5, *[3] * 3)
    assert not any(span.waiting for span in history.spans)
    assert [span.needs for span in history.spans] == [None, None, 2], "the third goes on from reasoning of the second"


def test_an_output_goes_with_the_call_that_only_a_reference_shows() -> None:
    history = read([USER, reference("rs_1"), reference("fc_1"), reference("fc_2"), output("a"), output("b"), USER])
    assert history.owners == (0, 1, 1, 1, 1, 1, 0)
    assert not history.spans[0].waiting
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert read([USER, reference("mcpr_1"), approval, reference("msg_1"), USER]).owners == (0, 1, 1, 1, 0)


@pytest.mark.parametrize(
    "step",
    [
        [reference("fc_1")],  # it waits
        [reference("fc_1"), reference("fc_2"), output("a")],
        [reference("rs_1"), reference("msg_1")],  # nothing in it is seen
        [reference("msg_1")],
        [reference("item_1"), call("a"), output("a")],  # may be anything
        [reference("rs_1"), output("a")],
        [call("a", caller={"type": "program", "caller_id": "p"}), output("a")],  # the program may be a reference
    ],
)
def test_a_step_that_may_be_incomplete_is_not_dropped(step: list[dict[str, Any]]) -> None:
    history = read([USER, *step, USER, call("z"), output("z"), USER], format="responses")
    assert [span.waiting for span in history.spans] == [True, False]


def test_references_before_the_first_words_may_be_the_users() -> None:
    history = read([reference("msg_1"), call("a"), output("a"), USER, reference("msg_2"), call("b"), output("b")])
    assert [span.waiting for span in history.spans] == [True, False]


def test_a_late_output_is_not_taken_for_that_of_a_reference() -> None:
    late = [call("a"), call("b"), output("a"), reference("fc_1"), output("b"), output("c"), USER]
    history = read([USER, *late])
    assert history.owners == (0, 1, 1, 1, 2, 0, 2, 0)
    assert [span.waiting for span in history.spans] == [True, True]


def test_outputs_of_two_steps_given_by_reference_are_not_told_apart_and_both_stay() -> None:
    first = [reference("fc_1"), reference("fc_2"), output("a")]
    second = [reference("fc_3"), output("b"), output("c")]
    history = read([USER, *first, *second, USER])
    assert [span.waiting for span in history.spans] == [True, True]
    assert [span.waiting for span in read([USER, *second, USER]).spans] == [True], "one of them has no call"


def test_a_late_output_is_known_after_going_back() -> None:
    """Cache marks make a reader read some messages again."""
    items = [USER, call("a"), call("b"), output("a"), reference("fc_1"), output("b"), output("c")]
    reader = Reader(wire_named("responses"), FocusConfig(), len)
    reader.extend(items)
    owners = list(reader.owners)
    marked = [*items[:4], {**reference("fc_1"), "cache_control": {"type": "ephemeral"}}, *items[5:]]
    assert reader.takes_marks(marked)
    assert reader.owners == owners


def test_a_compaction_item_given_by_reference_stays() -> None:
    assert read([USER, reference("cmp_1"), call("a"), output("a")]).owners == (0, 0, 1, 1)
