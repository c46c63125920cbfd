"""The paper's qualitative cases in small: a plan about a set drops its members, and a rescue brings them back.

AppWorld's own tasks cannot be had without its data; the mechanism that the paper describes needs none.
"""

import json
from typing import Any

import pytest

from focusctx.baselines.focus import FocusMethod
from focusctx.types import Message, Prompt

FRIENDS = ("Ann", "Bob", "Cem", "Dee", "Eve")
PLAN = "Step: for each contact, search and befriend on Venmo | Depends on: [s_1]"
RESCUE = "Rescued Spans: [s_2] | Reason: it lists who is still to be befriended"


def _step(number: int, code: str, printed: str) -> list[Message]:
    function = {"name": "run_python", "arguments": json.dumps({"code": code})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": printed},
    ]


def history() -> list[Message]:
    """Log in, list the contacts, wander about: as in the paper's task ff58e36."""
    steps = [("login()", "token: abc"), ("show_contacts()", ", ".join(FRIENDS))]
    steps += [(f"show_api_doc({number})", "long documentation " * 40) for number in range(6)]
    task = "Add all my friends and roommates as friends on Venmo, if they are not already."
    messages: list[Message] = [{"role": "user", "content": task}]
    for number, (code, printed) in enumerate(steps, 1):
        messages += _step(number, code, printed)
    return messages


def seen(messages: Any) -> set[str]:
    return {name for name in FRIENDS if any(name in str(message.get("content")) for message in messages)}


@pytest.mark.parametrize(
    ("sketch", "defensive", "still_there"),
    [
        (PLAN, False, set()),  # FOCUS-O: the procedure is cited, its members are not
        (PLAN, True, set()),  # FOCUS-D cannot rescue what the draft does not name
        (f"{PLAN}\n{RESCUE}", True, set(FRIENDS)),
        (f"{PLAN}\n{RESCUE}", False, set()),  # FOCUS-O does not hear of rescues
    ],
)
async def test_a_plan_about_a_set_loses_its_members_unless_they_are_rescued(
    sketch: str, defensive: bool, still_there: set[str]
) -> None:
    method = FocusMethod(lambda _: sketch, budget=200, defensive=defensive)
    compressed = await method.compress(history())
    assert compressed.happened
    assert seen(compressed.messages) == still_there
    assert any("token: abc" in str(message.get("content")) for message in compressed.messages)


async def test_documentation_that_nothing_depends_on_is_cleared_away() -> None:
    """Where compression helps: what dilutes a long history goes, what the plan needs stays."""
    asked: list[Prompt] = []

    def draft(prompt: Prompt) -> str:
        asked.append(prompt)
        return "Step: befriend each of them | Depends on: [s_1, s_2]"

    compressed = await FocusMethod(draft, budget=200).compress(history())
    assert seen(compressed.messages) == set(FRIENDS)
    text = "".join(str(message.get("content")) for message in compressed.messages)
    assert text.count("long documentation") <= 40  # the newest step alone
    assert "member" not in asked[0].system  # the paper's prompt has no sentence about members of a set
