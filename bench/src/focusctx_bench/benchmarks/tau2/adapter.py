"""τ²-bench as a benchmark of ours. One program serves all tasks; the models it wants are asked here."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from focusctx.errors import ConfigError
from focusctx.types import Message, Usage

from ...protocols import Model, Options, Score, Task, ToolCall
from ...spending import environment_model
from ..foreign.worker import SERVING, Worker
from .checkout import Checkout

_INSIDE = Path(__file__).with_name("inside.py")
_STEPS = 100
"""τ²-bench itself stops after 200 messages, and every turn of the agent is answered by one."""

_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


def benchmark(options: Options) -> Tau2:
    options.check("τ²-bench", ("domain", "user", "judge", "python", "tau_bench"))
    return Tau2(Checkout.of(options), lambda: _models(options), options.split)


def _models(options: Options) -> dict[str, Model]:
    if not (user := options.more.get("user")):
        raise ConfigError("τ²-bench needs a model that plays the customer: --set user=openai:gpt-4.1")
    named = {"user": user, "judge": options.more.get("judge") or user}
    return {who: environment_model(name, f"the {who}'s model", seed=options.seed) for who, name in named.items()}


class Tau2:
    name = "tau2"

    def __init__(self, checkout: Checkout, models: Callable[[], Mapping[str, Model]], split: str = "") -> None:
        """`models` gives the `user` and the `judge`; it is asked when the first task starts."""
        self.checkout = checkout
        self._models = models
        self._split = split or "base"
        self._worker: Worker | None = None
        self._runs = itertools.count()

    @cached_property
    def models(self) -> Mapping[str, Model]:
        return self._models()

    def tasks(self) -> Sequence[Task]:
        return [Task(name, step_limit=_STEPS) for name in self.checkout.task_ids(self._split)]

    async def start(self, task: Task) -> Conversation:
        conversation = Conversation(self.models, self.worker(), f"{os.getpid()}-{next(self._runs)}")
        await conversation.begin(self.checkout.domain, task.id)
        return conversation

    def worker(self) -> Worker:
        """The program, started again should it have ended."""
        if self._worker is None or not self._worker.is_alive:
            command = [str(self.checkout.python), str(SERVING), str(_INSIDE)]
            self._worker = Worker("τ²-bench", command, self.checkout.environment(), self.checkout.root)
        return self._worker


class Conversation:
    """One task: the agent's tools and the customer."""

    system = ""
    greeting = ""
    task = ""
    tools: Sequence[Mapping[str, Any]] = ()

    def __init__(self, models: Mapping[str, Model], worker: Worker, run: str) -> None:
        self._models = models
        self._worker = worker
        self._run = run
        self._over = False
        self._usage = dict.fromkeys(models, Usage())

    async def begin(self, domain: str, task: str) -> None:
        opening = await self._call("start", domain=domain, task=task)
        self.system, self.task, self.tools = opening["system"], opening["text"], opening["tools"]
        self.greeting = opening["greeting"]

    async def act(self, call: ToolCall) -> str:
        said = await self._call("act", id=call.id, name=call.name, arguments=dict(call.arguments))
        return str(said["text"])

    async def hear(self, text: str) -> str | None:
        said = await self._call("hear", text=text)
        return None if self._over else str(said["text"])

    def is_over(self) -> bool:
        return self._over

    async def score(self) -> Score:
        """τ²-bench's reward. What the customer's and the judge's models used stands in the details."""
        judged = await self._call("score")
        parts = {name.lower(): value for name, value in judged["parts"].items()}
        return Score(float(judged["reward"]), {"ended": judged["ended"], **parts, **self._used()})

    async def close(self) -> None:
        if self._worker.is_alive:
            await self._call("close")

    async def _call(self, do: str, **arguments: Any) -> Any:
        said = await self._worker.call(do, {"run": self._run, **arguments}, self._answer)
        self._over = self._over or bool(isinstance(said, dict) and said.get("over"))
        return said

    async def _answer(self, asked: Mapping[str, Any]) -> Message:
        who = asked["who"]
        turn = await self._models[who].answer(asked["messages"], asked["tools"])
        self._usage[who] += turn.usage
        if who == "judge" and (fenced := _FENCE.search(turn.text)):
            return {**turn.message, "content": fenced[1]}
        return turn.message

    def _used(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for who, usage in self._usage.items():
            if usage.requests:
                used |= {f"{who}_requests": usage.requests, f"{who}_tokens": usage.input_tokens + usage.output_tokens}
                used |= {} if usage.cost is None else {f"{who}_cost": usage.cost}
        return used
