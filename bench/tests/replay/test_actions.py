"""What a turn does, and how far two turns do the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx_bench.replay.agreement.answers import SAYS, Action, Agreement, action_of, agreement
from focusctx_bench.replay.agreement.local import tools_seen

values = st.lists(st.sampled_from("abcd"), max_size=5).map(tuple)
actions = st.builds(Action, st.lists(st.sampled_from(["get", "set"]), min_size=1, max_size=2).map(tuple), values)


def calls(*made: tuple[str, Any]) -> dict[str, Any]:
    written = [{"id": "c", "function": {"name": name, "arguments": json.dumps(given)}} for name, given in made]
    return {"role": "assistant", "content": "I think so.", "tool_calls": written}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@given(actions, actions)
def test_agreement_is_symmetric_within_bounds_and_full_with_itself(one: Action, other: Action) -> None:
    found = agreement(one, other)
    assert found == agreement(other, one)
    assert agreement(one, one) == Agreement(1, 1, 1)
    assert 0 <= found.arguments <= 1
    assert found.exact <= min(found.tool, found.arguments)
    assert (found.exact == 1) == (one == other)


def test_a_call_is_its_tool_and_its_values_whatever_their_order_and_white_space() -> None:
    one = action_of(calls(("book", {"to": "Oslo ", "nights": 2, "names": ["Ann", "Bo"]})))
    other = action_of({**calls(("book", {"names": ["Ann", "Bo"], "nights": 2, "to": "Oslo"})), "content": None})
    assert one == other == Action(("book",), ("Ann", "Bo", "2", "Oslo"))


def test_part_of_the_arguments() -> None:
    one = action_of(calls(("move", {"order": "#W1", "to": "Oslo"})))
    other = action_of(calls(("move", {"order": "#W1", "to": "Rome"})))
    assert agreement(one, other) == Agreement(exact=0, tool=1, arguments=0.5)
    assert agreement(one, action_of(calls(("drop", {"order": "#W1"})))).tool == 0


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("grep -rn needle src", "grep"),
        ("cd /repo && grep -rn needle src | head -3", "grep"),
        ("FOO=1 BAR=2 /usr/bin/python -m pytest", "python"),
        ("cat <<'EOF' > x.py\nprint('it')\nEOF", "cat"),
        ("cd /repo", "cd"),
        ("", ""),
    ],
)
def test_the_tool_of_a_shell_command_is_its_program(command: str, program: str) -> None:
    assert action_of(calls(("bash", {"command": command}))).tools == (f"bash:{program}",)
    if command:
        assert action_of(says(f"THOUGHT: now\n\n```bash\n{command}\n```")).tools == (program,)


def test_a_block_that_was_cut_still_runs_something() -> None:
    assert action_of(says("Let me see.\n```bash\nsed -n '1,9p' a.py\nsed -n '")).tools == ("sed",)


def test_a_turn_that_only_speaks() -> None:
    action = action_of(says("Your order is on its way!"))
    assert action == action_of(
        {"role": "assistant", "content": [{"type": "text", "text": "your order: is on its way"}]}
    )
    assert action.tools == (SAYS,)
    assert agreement(action, action_of(calls(("get", {})))) == Agreement(0, 0, 0)


def test_arguments_that_are_no_json_count_as_words() -> None:
    broken = {"id": "c", "function": {"name": "get", "arguments": '{"id": "#W1'}}
    assert action_of({"role": "assistant", "tool_calls": [broken]}) == Action(("get",), ('{"id":', '"#W1'))


def test_tools_as_the_calls_show_them() -> None:
    runs = [
        [calls(("book", {"to": "Oslo", "nights": 2})), calls(("stop", {}))],
        [calls(("book", {"to": "Rome", "names": ["Ann"], "paid": 1.5, "nights": None}))],
    ]
    book, stop = (tool["function"] for tool in tools_seen(runs))
    assert (book["name"], stop["name"]) == ("book", "stop")
    assert book["parameters"]["required"] == ["nights", "to"]
    assert book["parameters"]["properties"] == {
        "names": {"type": "array", "items": {"type": "string"}},
        "nights": {"type": "integer"},
        "paid": {"type": "number"},
        "to": {"type": "string"},
    }
    assert stop["parameters"] == {"type": "object", "properties": {}, "required": []}
