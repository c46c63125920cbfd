"""Whose request it is: runs that begin alike, callers that say the same, and many of them at once."""

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from focusctx import Focus
from focusctx.proxy.app import Proxy
from focusctx.proxy.compression import Compression, Route
from focusctx.proxy.conversations import LiveConversations
from focusctx.proxy.serve import serving
from focusctx.proxy.settings import Settings
from focusctx.proxy.upstream import Upstream
from focusctx.session.recall import TOOL
from focusctx.session.store import MemoryStore
from helpers.histories import Messages, call
from helpers.provider import Call, Provider, Received, Say
from helpers.session_parts import WHOLE_STEPS, Draft, calls_in, cites, crosses, growing, sized

pytestmark = pytest.mark.usefixtures("bounded")

STEPS = growing(sized(*[100] * 8))
ASK = {"role": "user", "content": "Recall it."}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def told(history: Messages, name: str) -> Messages:
    """A run with other observations: only the opening is equal."""
    return [
        {**message, "content": f"{name} {message['content']}"} if message["role"] == "tool" else message
        for message in history
    ]


def model(received: Received) -> Say:
    """Recalls the fifth step when it is told to, and says what it was told."""
    last = received.messages[-1]
    if last == ASK:
        return Say("", (Call(TOOL, {"query": "s_5"}),))
    return Say(f"It was: {last['content']}" if last["role"] == "tool" else "Go on.")


@dataclass
class Stage:
    proxy: Proxy
    url: str
    provider: Provider
    http: aiohttp.ClientSession
    draft: Draft

    async def send(self, messages: Messages, **headers: str) -> str:
        """The text of the answer."""
        body = {"model": "m", "messages": messages, "tools": TOOLS}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body, headers=named) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["choices"][0]["message"]["content"])

    @property
    def went_up(self) -> Messages:
        return list(self.provider.received[-1].messages)

    async def data(self, path: str, body: Any = None) -> Any:
        url = f"{self.url}/ui/api/{path}"
        async with self.http.post(url, json=body) if body else self.http.get(url) as answer:
            return await answer.json()


@asynccontextmanager
async def staged(*, recall: bool = False, seconds: float = 0.0, store: str = "memory") -> AsyncIterator[Stage]:
    draft = Draft(cites(2), seconds=seconds)
    focus = Focus(draft, budget=300, tokens=crosses, **WHOLE_STEPS)
    with Provider(model) as provider:
        settings = Settings((Upstream("local", provider.url),), port=0, store=store, recall=recall, grace=0.1)
        async with (
            serving(focus, settings) as (proxy, url),
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        ):
            yield Stage(proxy, url, provider, http, draft)


async def in_turns(stage: Stage, **headers: str) -> None:
    """Runs ONE and TWO with the same opening, step by step."""
    for history in STEPS:
        for name in ("one", "two"):
            await stage.send(told(history, name), **headers)


# ------------------------------------------------------------------------------------------ runs with one opening


async def test_a_run_recalls_its_own_steps_and_restores_them_for_itself() -> None:
    async with staged(recall=True) as stage:
        await in_turns(stage)
        assert len(stage.proxy.conversations) == 2
        said = await stage.send([*told(STEPS[-1], "one"), ASK])
        assert said.startswith("It was: [s_5]")
        assert "one x" in said
        assert "two x" not in said
        await stage.send(told(STEPS[-1], "two"))
        assert "call_5" not in calls_in(stage.went_up)
        await stage.send(told(STEPS[-1], "one"))
        assert "call_5" in calls_in(stage.went_up)


async def test_the_dashboard_shows_each_run_by_itself() -> None:
    async with staged() as stage:
        await in_turns(stage)
        lines = {line["id"]: line for line in (await stage.data("sessions"))["sessions"]}
        assert len(lines) == 2
        lives = {name: live for live in stage.proxy.conversations for name in ("one", "two") if holds(live, name)}
        for name, live in lives.items():
            line = lines[live.id]
            assert line["requests"] == {"one": 10, "two": 8}[name], "the opening is equal, and so the first one's"
            assert line["events"] == sum(event.happened for event in live.events) > 0
            assert line["tokens_saved"] == live.savings.tokens_saved > 0
            blocks = await stage.data(f"sessions/{live.id}/events/1/spans/1")
            (result,) = [block["stretches"] for block in blocks if block["name"] == "observation"]
            assert result[0][0].startswith(f"{name} x")
        answer = await stage.data(f"sessions/{lives['one'].id}/restore", {"span": 3})
        assert list(answer["restored"]) == ["3"]
        for name, is_back in (("one", True), ("two", False)):
            await stage.send(told(STEPS[-1], name))
            assert ("call_3" in calls_in(stage.went_up)) is is_back
        assert (await stage.data(f"sessions/{lives['two'].id}"))["restored"] == {}
        saved = [live.savings.tokens_saved for live in lives.values()]
        assert sum(saved) == lives["one"].session.savings.tokens_saved


def holds(live: Any, name: str) -> bool:
    return any(f"{name} x" in span.text for span in live.conversation.recall("s_1"))


@pytest.mark.parametrize("header", ["x_focusctx_session", "x_claude_code_session_id"])
async def test_a_callers_name_for_the_run_tells_equal_histories_apart(header: str) -> None:
    async with staged() as stage:
        for history in STEPS:
            for run in ("run-1", "run-2"):
                await stage.send(history, **{header: run})
        one, two = sorted(stage.proxy.conversations, key=lambda live: str(live.key.id))
        assert (one.conversation.id, two.conversation.id) == ("run-1", "run-2")
        assert one.conversation.restore(3)
        await stage.send(STEPS[-1], **{header: "run-2"})
        assert "call_3" not in calls_in(stage.went_up)
        await stage.send(STEPS[-1], **{header: "run-1"})
        assert "call_3" in calls_in(stage.went_up)


async def test_an_agent_that_speaks_behind_every_request_has_one_conversation() -> None:
    async with staged() as stage:
        for step, history in enumerate(STEPS[1:]):
            await stage.send([*history, {"role": "user", "content": f"This was step {step}."}])
        (live,) = stage.proxy.conversations
        assert len(live.steps) == len(STEPS) - 1
        assert any(event.happened for event in live.events)


async def test_cache_marks_that_move_leave_one_conversation() -> None:
    async with staged() as stage:
        for history in STEPS:
            marked = copy.deepcopy(history)
            last = {"type": "text", "text": marked[-1]["content"], "cache_control": {"type": "ephemeral"}}
            marked[-1]["content"] = [last]
            await stage.send(marked)
        (live,) = stage.proxy.conversations
        assert len(live.steps) == len(STEPS)


async def test_an_agent_that_goes_back_and_another_way_has_two_conversations() -> None:
    async with staged() as stage:
        for history in STEPS:
            await stage.send(history)
        other = [*STEPS[-1][:-4], *told(STEPS[-1][-4:], "other")]
        await stage.send(other)
        assert len(stage.proxy.conversations) == 2
        await stage.send([*other, {"role": "user", "content": "Go on."}])
        assert len(stage.proxy.conversations) == 2


# --------------------------------------------------------------------------------------------------- many at once


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_64_equal_rollouts_at_once_ask_the_draft_once(store: str, tmp_path: Any) -> None:
    url = store if store == "memory" else f"sqlite:///{tmp_path}/focus.db"
    async with staged(seconds=0.5, store=url) as stage:
        started = time.perf_counter()
        await asyncio.gather(*(stage.send(STEPS[-1]) for _ in range(64)))
        assert stage.draft.calls == 1
        assert time.perf_counter() - started < 10
        assert {len(received.messages) for received in stage.provider.received} == {len(stage.went_up)}
        assert len(stage.went_up) < len(STEPS[-1])


async def test_rollouts_that_differ_do_not_wait_for_each_others_drafts() -> None:
    """16 of them with a draft of 0.5 s: one after the other they would take 8 s."""
    async with staged(seconds=0.5) as stage:
        histories = [told(STEPS[-1], str(number)) for number in range(16)]
        started = time.perf_counter()
        await asyncio.gather(*map(stage.send, histories))
        assert time.perf_counter() - started < 4
        assert stage.draft.calls == stage.draft.most_under_way == 16
        assert len(stage.proxy.conversations) == 16
        assert len({live.id for live in stage.proxy.conversations}) == 16


# ------------------------------------------------------------------------------------------------------- tenants


@pytest.mark.parametrize("runs", [50, pytest.param(250, marks=pytest.mark.slow)])
def test_thousands_of_steps_of_two_callers_with_the_same_words(runs: int) -> None:
    route, store, names = Route("chat_completions", "messages"), MemoryStore(), ("ann", "bob")
    focus = Focus(Draft(lambda prompt: cites(2)), budget=120)
    made = LiveConversations(lambda key: focus.session(store, tenant=key.tenant, ahead=1.0, frozen=True))
    compression = Compression(made, lambda *_: None, limit=10**9, recall=False, dry_run=False)

    async def send(name: str, history: Messages) -> Messages:
        body = json.dumps({"model": "m", "messages": history}).encode()
        shrunk = await compression.compress(route, "up", {"authorization": f"Bearer {name}"}, body)
        sent: Messages = json.loads(shrunk.body or body)["messages"]
        return sent

    async def go() -> int:
        steps = 0
        for run in range(runs):
            history: Messages = [{"role": "user", "content": f"Do it {run % (runs // 5)}."}]
            for number in range(20):
                for name in names:
                    sent = await send(name, [named(message, name) for message in history])
                    assert all(other not in json.dumps(sent) for other in names if other != name)
                    steps += 1
                history = [
                    *history,
                    {"role": "assistant", "content": "Next.", "tool_calls": [call(number)]},
                    {"role": "tool", "tool_call_id": f"call_{number}", "content": f"NAME {run} all the words of it"},
                ]
        return steps

    def named(message: dict[str, Any], name: str) -> dict[str, Any]:
        return {**message, "content": message["content"].replace("NAME", name)}

    async def both() -> int:
        steps = await go()
        await check()
        await made.close()
        return steps

    async def check() -> None:
        owners = {}
        for live in made:
            texts = "".join(span.text for span in live.conversation.recall("words")) if live.conversation else ""
            found = [name for name in names if name in texts]
            assert len(found) <= 1
            if found:
                assert owners.setdefault(live.key.tenant, found[0]) == found[0]
            assert live.conversation is None or live.conversation.tenant == live.key.tenant
        assert sorted(owners.values()) == ["ann", "bob"]
        assert len({live.id for live in made}) == len(made)
        assert len({live.session for live in made}) == 2

    assert asyncio.run(both()) == 40 * runs
    totals = {store.totals(tenant) for tenant in {tenant for tenant, _ in store._events}}
    assert len(totals) == 1, "both saved the same, and neither saved the other's"
    assert totals.pop().events > runs


async def test_a_conversation_that_is_let_go_leaves_its_totals_in_the_store() -> None:
    store = MemoryStore()
    focus = Focus(Draft(cites(2)), budget=300, tokens=crosses)
    made = LiveConversations(lambda key: focus.session(store, tenant="t", ahead=1.0, frozen=True), most=4)
    compression = Compression(made, lambda *_: None, limit=10**9, recall=False, dry_run=False)
    for run in range(40):
        body = json.dumps({"model": f"m{run % 2}", "messages": sized(*[100] * 8, name=str(run))}).encode()
        assert (await compression.compress(Route("chat_completions", "messages"), "up", {}, body)).body
    assert len(made) == 4
    assert sum(len(live.session.conversations) for live in made) == 8, "two sessions, each with two, seen twice"
    assert store.totals("t").events >= 36
    await made.close()
    assert store.totals("t").events == 40
