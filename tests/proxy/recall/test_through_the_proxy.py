"""The official SDKs do the long task with a model that keeps recalling: their run is the one they have without it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from focusctx import Focus
from focusctx.session.recall import TOOL
from helpers import sdk_agents, task
from helpers.provider import Call, Provider, Received, Say
from helpers.proxied import every_third_and_the_newest, proxied

CALLS = [(call.name, call.arguments) for step in range(1, task.STEPS + 1) for call in task.turn(step).calls]
RECALL = Call(TOOL, {"query": "s_1"})


def own_and_hidden(received: Received) -> tuple[list[Any], list[Any]]:
    """The agent's messages, and those of the rounds it does not see."""
    messages = received.messages
    begun = (place for place, message in enumerate(messages) if f'"name": "{TOOL}"' in json.dumps(message))
    first = next(begun, len(messages))
    return messages[:first], messages[first:]


def forgetful(received: Received) -> Say:
    """Recalls before each step, once something is left out: in many ways, and sometimes more than once."""
    own, hidden = own_and_hidden(received)
    say = task.model(replace(received, body={**received.body, "messages": own, "input": own}))
    asked = json.dumps(hidden).count(f'"name": "{TOOL}"')
    if "Left out to save space" not in json.dumps(own) or not say.calls:
        return say
    step = say.calls[0].arguments["page"]
    ways: dict[int, list[Say]] = {
        0: [Say("", (RECALL,))],
        1: [Say("", (RECALL,), thinking="What was it?")],
        2: [replace(say, text="Wait.", calls=(RECALL, *say.calls))],
        3: [replace(say, text="", calls=(*say.calls, RECALL))],
        4: [Say("First this.", (RECALL,), thinking="Hm."), Say("Then that.", (RECALL,), thinking="Hm?")],
    }
    rounds = ways[step % 5]
    return rounds[asked] if asked < len(rounds) else say


def tools(received: Received) -> Iterator[str]:
    for tool in received.body["tools"]:
        yield tool.get("function", tool)["name"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("format", sdk_agents.FORMATS)
def test_the_run_is_the_same(format: str, stream: bool) -> None:
    focus = Focus(every_third_and_the_newest, budget=2000)
    with Provider(forgetful) as provider, proxied(focus, provider.url, recall=True) as (_, url):
        run = sdk_agents.run_sync(format, url, stream=stream)
    assert provider.rejected == [], "every round was one that a provider takes"
    assert run.calls == CALLS
    assert run.final == [task.FINAL]
    assert f'"{TOOL}"' not in json.dumps(run.history)
    later = [received for received in provider.received if own_and_hidden(received)[1]]
    assert len(provider.received) - len(later) == task.STEPS + 1
    assert len(later) >= 20
    assert all(TOOL in tools(received) for received in provider.received)
    assert "Page 1 of" in json.dumps(own_and_hidden(later[0])[1]), "it was told"
    assert "Page 1 of" in json.dumps(own_and_hidden(provider.received[-1])[0]), "and has it in its view since"
