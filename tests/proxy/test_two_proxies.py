"""Two proxies behind a balancer, on one Redis: a conversation may come through either, and nobody can tell."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import redis

from focusctx import Focus
from focusctx.proxy.app import Proxy
from focusctx.types import Prompt
from helpers import task
from helpers.histories import Messages
from helpers.prefixes import moves, spelled
from helpers.provider import Provider, Received
from helpers.raw_http import Headers, exchange, proxy
from helpers.session_parts import WHOLE_STEPS, Draft, growing

pytestmark = pytest.mark.usefixtures("nothing_left")

CHAT = "/v1/chat/completions"
BUDGET = 2000
A = ("authorization", "Bearer one")
RUN = "x-focusctx-session"
CLAUDE = "x-claude-code-session-id"


def long_task() -> Messages:
    """The whole history of the thirty steps, as an agent would have it."""
    history: Messages = [{"role": "system", "content": "You audit."}, {"role": "user", "content": task.TASK}]
    for step in range(1, task.STEPS + 1):
        calls = []
        results: Messages = []
        for number, call in enumerate(task.turn(step).calls):
            name = f"call_{step}_{number}"
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            calls.append({"id": name, "type": "function", "function": function})
            try:
                text = task.run_tool(call.name, call.arguments)
            except task.ToolFailure as failure:
                text = f"Error: {failure}"
            results.append({"role": "tool", "tool_call_id": name, "content": text})
        history += [{"role": "assistant", "content": f"Next is page {step}.", "tool_calls": calls}, *results]
    return history


HISTORY = long_task()
STEPS = growing(HISTORY)


def keep_some(prompt: Prompt) -> str:
    spans = [span.index for span in prompt.history.spans]
    cited = [index for index in spans if index % 4 == 0]
    return f"Step: go on | Depends on: [{', '.join(f's_{index}' for index in cited)}]"


class Draws(Draft):
    """Every draft of every proxy says something else: what they agree on, they agree on through the store."""

    def __init__(self, keeps: int, seconds: float = 0.0) -> None:
        def plan(prompt: Prompt) -> str:
            cited = [span.index for span in prompt.history.spans if span.index % 5 == keeps]
            return f"Step: go on | Depends on: [{', '.join(f's_{index}' for index in cited)}]"

        super().__init__(plan, seconds=seconds, name=f"draws {keeps}")


@pytest.fixture
def store(redis_url: str) -> str:
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    return redis_url


async def post(url: str, messages: Sequence[Any], headers: Headers | None = None) -> None:
    body = json.dumps({"model": "scripted", "messages": messages}).encode()
    answer = await exchange(url, "POST", CHAT, [A] if headers is None else headers, body)
    assert answer.status == 200


def events(served: Proxy) -> list[Any]:
    return [event for live in served.conversations for event in live.session.events if event.happened]


def check_prefixes(received: list[Received], moved: int) -> None:
    """Each request goes on from the one before, byte for byte, except where steps were dropped."""
    assert len(moves(received)) == moved > 1
    for before, after in pairwise(map(spelled, received)):
        if after[: len(before)] != before:
            assert [each for each in before if each in set(after)] == [each for each in after if each in set(before)]
    for request, whole in zip(received, STEPS, strict=True):
        assert request.messages[-1] == whole[-1]
        assert [message for message in whole if message in request.messages] == request.messages


@pytest.mark.parametrize("seconds", [0.0, 0.03])
async def test_one_conversation_through_both_in_turn(store: str, seconds: float) -> None:
    with Provider(task.model) as provider:
        async with (
            proxy(provider.url, focus=Focus(Draws(1, seconds), budget=BUDGET, **WHOLE_STEPS), store=store) as (
                one,
                first,
            ),
            proxy(provider.url, focus=Focus(Draws(2, seconds), budget=BUDGET, **WHOLE_STEPS), store=store) as (
                two,
                second,
            ),
        ):
            for number, history in enumerate(STEPS):
                await post(second if number % 2 else first, history)
            made = [event for event in events(one) + events(two) if event.cause == "compressed"]
            (here,), (there,) = one.conversations, two.conversations
            await post(first, STEPS[-1])
            await post(second, STEPS[-1])
            assert here.session.size == there.session.size
    assert provider.rejected == []
    *steps, last_of_one, last_of_two = provider.received
    assert last_of_one.raw == last_of_two.raw == steps[-1].raw, "the same decisions"
    check_prefixes(steps, len(made))
    assert len(steps[-1].raw) < 0.6 * len(json.dumps(HISTORY))


async def test_the_same_request_through_both_at_once(store: str) -> None:
    """Both decide at the same moment, each in its own way; what stands in the store first, stands."""
    with Provider(task.model) as provider:
        async with (
            proxy(provider.url, focus=Focus(Draws(1, 0.05), budget=BUDGET, **WHOLE_STEPS), store=store) as (_, first),
            proxy(provider.url, focus=Focus(Draws(2, 0.05), budget=BUDGET, **WHOLE_STEPS), store=store) as (_, second),
        ):
            for history in STEPS:
                await asyncio.gather(post(first, history), post(second, history))
            for url in (first, second):
                await post(url, STEPS[-1])
    assert provider.rejected == []
    assert provider.received[-1].raw == provider.received[-2].raw
    pairs = list(zip(provider.received[::2], provider.received[1::2], strict=True))
    assert sum(one.raw == two.raw for one, two in pairs) > 0.9 * len(pairs)


async def test_one_goes_down_and_a_new_one_goes_on(store: str) -> None:
    with Provider(task.model) as provider:
        for start in range(0, len(STEPS), 7):
            focus = Focus(Draws(start % 3), budget=BUDGET, **WHOLE_STEPS)
            async with proxy(provider.url, focus=focus, store=store) as (_, url):
                for history in STEPS[start : start + 7]:
                    await post(url, history)
    assert provider.rejected == []
    drops = len(moves(provider.received))
    check_prefixes(provider.received, drops)
    assert drops < len(STEPS) / 2, "nothing is decided anew because a process is new"


async def _shares(store: str, first: Headers, second: Headers) -> bool:
    """Whether a caller's decisions hold for a request with these other headers, through another proxy."""
    with Provider(task.model) as provider:
        async with proxy(provider.url, focus=Focus(keep_some, budget=BUDGET, **WHOLE_STEPS), store=store) as (_, url):
            await post(url, STEPS[20], first)
        # This one would decide nothing by itself.
        silent = Focus(Draft("I do not know."), budget=BUDGET, **WHOLE_STEPS)
        async with proxy(provider.url, focus=silent, store=store) as (_, url):
            await post(url, STEPS[20], second)
    assert len(provider.received[0].messages) < len(STEPS[20])
    if provider.received[1].raw == provider.received[0].raw:
        return True
    assert provider.received[1].messages == STEPS[20]
    return False


@pytest.mark.parametrize(
    ("first", "second", "shares"),
    [
        ([A], [A], True),
        ([A], [A, ("user-agent", "another")], True),
        ([A], [("authorization", "Bearer two")], False),
        ([A], [("x-api-key", "one")], False),
        ([A], [], False),
        ([], [], True),
        ([("x-api-key", "one")], [("x-api-key", "one")], True),
        ([("x-api-key", "one")], [("x-api-key", "two")], False),
        ([A, (RUN, "7")], [A, (RUN, "7")], True),
        ([A, (RUN, "7")], [A, (RUN, "8")], True),
        ([A, (RUN, "7")], [A], True),
        ([A, (CLAUDE, "7")], [A, (CLAUDE, "8")], True),
        ([A, (RUN, "7"), (CLAUDE, "1")], [A, (RUN, "7"), (CLAUDE, "2")], True),
        ([A, (RUN, "one\xff")], [A, (RUN, "one\xff")], True),
    ],
)
async def test_whose_decisions_hold_for_whom(store: str, first: Headers, second: Headers, shares: bool) -> None:
    assert await _shares(store, first, second) is shares


async def test_two_runs_with_the_same_content_are_kept_apart_by_the_header() -> None:
    with Provider(task.model) as provider:
        async with proxy(provider.url, focus=Focus(keep_some, budget=BUDGET, **WHOLE_STEPS)) as (served, url):
            for name in ("7", "8"):
                for history in STEPS[:12]:
                    await post(url, history, [A, (RUN, name)])
            assert len(served.conversations) == 2
            assert len({live.id for live in served.conversations}) == 2
    first, second = provider.received[:12], provider.received[12:]
    assert [request.raw for request in first] == [request.raw for request in second]
