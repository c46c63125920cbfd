"""The paper's own failure case: a plan acts on each member of a set, and the steps that listed the members are gone."""

import json

from focusctx import Focus, FocusConfig, Prompt
from helpers.histories import Messages, call

TASK = "Add all my friends and roommates as friends on Venmo, if they are not already."
STEPS: list[tuple[str, str, object]] = [
    ("show_api_docs", '{"app": "phone"}', {"endpoints": ["login", "contacts"]}),
    ("phone_search_contacts", '{"relationship": "friend"}', [{"name": "Cory Hunt"}, {"name": "Ida Sol"}]),
    ("phone_search_contacts", '{"relationship": "roommate"}', [{"name": "Ben Okri"}, {"name": "Lea Marsh"}]),
    ("venmo_login", "{}", {"access_token": "tok-81"}),
    ("venmo_search_users", '{"query": "ben"}', {"id": 4}),
]


def history() -> Messages:
    messages: Messages = [{"role": "user", "content": TASK}]
    for number, (name, arguments, output) in enumerate(STEPS, 1):
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call(number, name, arguments)]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": json.dumps(output)},
        ]
    return messages


def obedient(prompt: Prompt) -> str:
    """Plan like a model that cites the lists of members only when it is asked to."""
    asked = "acts on each member of a set, name every passage that lists members" in " ".join(prompt.system.split())
    return f"Step: befriend each contact on Venmo | Depends on: [{'s_2, s_3, s_4' if asked else 's_4'}]"


def test_prompt_asks_for_the_steps_that_list_members() -> None:
    result = Focus(obedient, tokens=len, budget=10, levels=False, target=None).compress(history())
    assert result.kept == (2, 3, 4, 5)
    assert "Lea Marsh" in json.dumps(list(result.messages))


def test_paper_mode_asks_for_no_more_than_the_paper() -> None:
    result = Focus(obedient, config=FocusConfig.paper(), tokens=len, budget=10).compress(history())
    assert result.kept == (4, 5), "the paper's own failure case fails in the paper's mode"
    assert result.prompt == "paper"
    assert Focus(obedient, tokens=len, budget=10).compress(history()).prompt == "focusctx"
