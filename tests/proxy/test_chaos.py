"""Agents that rewind, fork, repeat themselves and leave, through two proxies that share a store which comes and goes.

Whatever happens, what goes up is a part of what was sent, word for word, ends as it ended, and is legal.
"""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from focusctx import Focus
from focusctx.errors import StoreError
from focusctx.invariants import violations
from focusctx.proxy.app import Proxy
from focusctx.types import Prompt
from helpers.histories import Messages
from helpers.raw_http import Raw, connect, exchange, proxy, raw_upstream, request
from helpers.session_parts import WHOLE_STEPS, Draft

pytestmark = pytest.mark.usefixtures("nothing_left")

_TEXT = "the ledger says that lot KX-{} went to bay {}. "


def text(chance: random.Random) -> str:
    return "".join(_TEXT.format(chance.randrange(9999), chance.randrange(99)) for _ in range(chance.randrange(1, 12)))


def chat_step(number: int, chance: random.Random) -> Messages:
    names = [f"call_{number}_{call}" for call in range(chance.choice([0, 1, 1, 1, 2, 3]))]
    if not names:
        return [{"role": "assistant", "content": text(chance)}, {"role": "user", "content": f"And {number}?"}]
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}} for name in names]
    turn: dict[str, Any] = {"role": "assistant", "content": f"thought {number}", "tool_calls": calls}
    return [turn, *({"role": "tool", "tool_call_id": name, "content": text(chance)} for name in names)]


def anthropic_step(number: int, chance: random.Random) -> Messages:
    names = [f"toolu_{number}_{call}" for call in range(chance.choice([0, 1, 1, 1, 2]))]
    if not names:
        return [{"role": "assistant", "content": text(chance)}, {"role": "user", "content": f"And {number}?"}]
    uses = [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in names]
    results = [{"type": "tool_result", "tool_use_id": name, "content": text(chance)} for name in names]
    thinking = [{"type": "thinking", "thinking": f"so {number}", "signature": f"sig {number}"}]
    return [{"role": "assistant", "content": thinking + uses}, {"role": "user", "content": results}]


def responses_step(number: int, chance: random.Random) -> Messages:
    names = [f"fc_{number}_{call}" for call in range(chance.choice([0, 1, 1, 2]))]
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"e{number}"}
    if not names:
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text(chance)}]}
        return [thought, said, {"role": "user", "content": f"And {number}?"}]
    calls = [{"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"} for name in names]
    outputs = [{"type": "function_call_output", "call_id": name, "output": text(chance)} for name in names]
    return [thought, *calls, *outputs]


FORMATS: dict[str, tuple[str, str, Callable[[int, random.Random], Messages]]] = {
    "chat_completions": ("/v1/chat/completions", "messages", chat_step),
    "anthropic": ("/v1/messages", "messages", anthropic_step),
    "responses": ("/v1/responses", "input", responses_step),
}


class Agent:
    """A history as a list of steps, and what an agent may do to it."""

    def __init__(self, format: str, chance: random.Random) -> None:
        self.path, self.field, self._step = FORMATS[format]
        self._chance = chance
        self._start: Messages = [{"role": "user", "content": "Do the task."}]
        if format == "chat_completions":
            self._start.insert(0, {"role": "system", "content": "You help."})
        self._steps: list[Messages] = []
        self._made = 0

    def act(self) -> None:
        what = self._chance.random()
        if what < 0.1 and self._steps:  # rewind
            del self._steps[self._chance.randrange(len(self._steps)) :]
        elif what < 0.2 and self._steps:  # edit the past
            place = self._chance.randrange(len(self._steps))
            self._steps[place] = self._new()
        elif what < 0.9:
            self._steps += [self._new() for _ in range(self._chance.randrange(1, 5))]

    def _new(self) -> Messages:
        self._made += 1
        return self._step(self._made, self._chance)

    @property
    def history(self) -> Messages:
        return self._start + [message for step in self._steps for message in step]


def check(up: Raw, sent: dict[str, Messages], field: str, format: str) -> None:
    """Every request that arrived, against the one that was sent."""
    for got in up.got:
        arrived, whole = json.loads(got.body)[field], sent[got["x-number"]]
        rest = iter(map(json.dumps, whole))
        assert all(json.dumps(message) in rest for message in arrived), "word for word, in order"
        assert arrived[-1] == whole[-1]
        assert arrived[0] == whole[0]
        assert not violations(arrived, format)


class Sometimes:
    """Makes a store fail now and then."""

    def __init__(self, served: Proxy, chance: random.Random) -> None:
        self._store: Any = served.store._store
        self._chance = chance
        self._whole = self._store.version, self._store.commit
        served.store._rest = 0.02

    def change(self) -> None:
        self._store.version, self._store.commit = self._whole
        if self._chance.random() < 0.25:
            self._store.commit = self._fail
        if self._chance.random() < 0.1:
            self._store.version = self._fail

    def _fail(self, *_: Any) -> Any:
        raise StoreError("not now")


def plan(prompt: Prompt) -> str:
    cited = [span.index for span in prompt.history.spans if span.index % 3 == 0]
    return f"Step: go on | Depends on: [{', '.join(f's_{index}' for index in cited)}]"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("settings", [WHOLE_STEPS, {}], ids=["whole steps", "levels"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
async def test_what_goes_up_is_a_legal_part_of_what_was_sent(
    format: str, settings: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{format} {len(settings)} {seed}")
    agent = Agent(format, chance)
    sent: dict[str, Messages] = {}
    store = f"sqlite:///{tmp_path / 'focus.db'}"

    def focus() -> Focus:
        return Focus(Draft(plan, seconds=0.005), budget=500, breaker_failures=1000, **settings)

    async with (
        raw_upstream() as up,
        proxy(up.url, focus=focus(), store=store) as (one, first),
        proxy(up.url, focus=focus(), store=store) as (two, second),
    ):
        stores = [Sometimes(one, chance), Sometimes(two, chance)]
        for number in range(60):
            agent.act()
            chance.choice(stores).change()
            sent[str(number)] = agent.history
            body = json.dumps({"model": "m", agent.field: agent.history}).encode()
            urls = chance.choice([[first], [second], [first, second], [first, first]])
            if chance.random() < 0.1:
                await _leave(urls[0], agent.path, body, str(number), chance)
            else:
                post = [exchange(url, "POST", agent.path, [("x-number", str(number))], body) for url in urls]
                assert {answer.status for answer in await asyncio.gather(*post)} == {200}
        saved = sum(len(json.dumps(whole)) for whole in sent.values())
        assert sum(len(got.body) for got in up.got) < 2 * saved
        if seed == 0:  # with other seeds the stores may be down whenever an event would be due
            lives = [*one.conversations, *two.conversations]
            assert [event for live in lives for event in live.session.events if event.happened]
    if settings:
        check(up, sent, agent.field, format)
    else:
        for got in up.got:
            assert not violations(json.loads(got.body)[agent.field], format)
            assert json.loads(got.body)[agent.field][-1] == sent[got["x-number"]][-1]


async def _leave(url: str, path: str, body: bytes, number: str, chance: random.Random) -> None:
    async with await connect(url) as line:
        await line.send(request("POST", path, [("x-number", number)], body))
        await asyncio.sleep(chance.random() * 0.02)
        line.reset()
