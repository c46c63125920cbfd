"""A plan that goes through a set keeps the spans that list its members."""

import json
from typing import Any

import pytest

from focusctx import Focus, FocusConfig
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.members import members
from histories import Messages, call

FRIENDS = [
    {"name": "Cory Hunt", "email": "cory@example.org", "relation": "friend"},
    {"name": "Ida Sol", "email": "ida@example.org", "relation": "friend"},
]
ROOMMATES = [
    {"name": "Ben Okri", "email": "ben@example.org", "relation": "roommate"},
    {"name": "Lea Marsh", "email": "lea@example.org", "relation": "roommate"},
]
PLAN = "Step: for each contact, search and befriend on Venmo | Depends on: [s_4]"


def agent(*steps: tuple[str, str, object]) -> Messages:
    """The paper's failure case: two lists are joined and something is done for each member."""
    task = "Add all my friends and roommates as friends on Venmo, if they are not already."
    messages: Messages = [{"role": "user", "content": task}]
    for number, (name, arguments, output) in enumerate(steps, 1):
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call(number, name, arguments)]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": json.dumps(output)},
        ]
    return messages


STEPS: list[tuple[str, str, object]] = [
    ("show_api_docs", '{"app": "phone"}', {"endpoints": ["login", "contacts"]}),
    ("phone_search_contacts", '{"relationship": "friend"}', FRIENDS),
    ("phone_search_contacts", '{"relationship": "roommate"}', ROOMMATES),
    ("venmo_login", "{}", {"access_token": "tok-81"}),
    ("venmo_search_friends", '{"page": 0}', [{"name": "Cory Hunt"}, {"name": "Ida Sol"}]),
    ("venmo_search_users", '{"query": "ben"}', {"id": 4}),
]


def compress(messages: Messages, plan: str = PLAN, **settings: Any) -> Any:
    return Focus(ScriptedDraft([plan]), tokens=len, budget=10, **settings).compress(messages)


def test_friends_and_roommates() -> None:
    """The lists that the plan forgot come back: the roommates', and of the friends' the newest that names them all."""
    assert compress(agent(*STEPS)).kept == (4, 6)
    result = compress(agent(*STEPS), members=True)
    assert result.kept == (3, 4, 5, 6)
    assert "lists members of a set" in result.explain()


def test_nobody_who_has_to_be_befriended_is_lost() -> None:
    without_venmo_friends = [*STEPS[:4], *STEPS[5:]]
    kept = json.dumps(list(compress(agent(*without_venmo_friends), members=True).messages))
    assert all(person["email"] in kept for person in FRIENDS + ROOMMATES)


@pytest.mark.parametrize(
    "plan",
    [
        "Step: befriend Ben Okri | Depends on: [s_4]",
        "Step: for each unread mail, archive it | Depends on: [s_4]",  # friends and roommates come from the goal …
    ],
)
def test_a_plan_that_goes_through_no_set_or_another_one(plan: str) -> None:
    messages = agent(*STEPS)
    messages[0]["content"] = "Clean up."  # … which names none here
    assert compress(messages, plan, members=True).kept == (4, 6)


def test_members_that_stay_elsewhere_bring_nothing_back() -> None:
    messages = agent(*STEPS)
    names = ", ".join(person["name"] for person in FRIENDS + ROOMMATES)
    messages.append({"role": "user", "content": f"That is {names}."})
    assert compress(messages, members=True).kept == (4, 6)


def test_the_members_of_a_list() -> None:
    assert members(json.dumps(FRIENDS)) == [{"Cory Hunt", "cory@example.org"}, {"Ida Sol", "ida@example.org"}]
    assert members('{"page": 1, "rows": ["north", "south"]}') == [{"north"}, {"south"}]
    assert members("Found:\n- north gate\n- south gate\n") == [{"north gate"}, {"south gate"}]
    for nothing in ("", "plain words", "[]", '["alone"]', "[1, 2]", "- alone", "[" * 100_000):
        assert members(nothing) == []


def test_it_is_off_unless_asked_for() -> None:
    assert not FocusConfig.paper().members
