"""The agent: `a_{t+1} ~ π(· | Z_t, g)`, step by step, until the task is over or the steps are used up.

At every step the method turns the whole history into what is sent; the history itself only grows. A turn of the
model is one step, whether it calls one tool, several at once, or speaks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from focusctx.baselines.method import Factory
from focusctx.errors import ModelError
from focusctx.types import Message

from .protocols import Benchmark, ContextTooLong, Environment, Model, ModelAnswer, Task, ToolCall
from .record import Ended, Record, Recorder, Step

TEMPERATURE = 0.0
SEED = 42


@dataclass(frozen=True, slots=True)
class Agent:
    """A model that compresses its history by a method."""

    model: Model
    method: Factory
    step_limit: int | None = None
    """The most turns of one run; None for the task's own limit, 50 in the paper."""

    async def run(self, benchmark: Benchmark, task: Task, watch: Callable[[Step], None] = lambda _: None) -> Record:
        """One task from beginning to end. `watch` sees each step as it is done; what it raises ends the run."""
        environment = await benchmark.start(task)
        recorder = Recorder(watch)
        try:
            ended, problem = await self._until_over(environment, recorder, self.step_limit or task.step_limit)
            score = await environment.score()
        finally:
            await environment.close()
        return recorder.record(
            benchmark=benchmark.name,
            task=task.id,
            difficulty=task.difficulty,
            model=self.model.name,
            ended=ended,
            problem=problem,
            score=score,
        )

    async def _until_over(self, environment: Environment, recorder: Recorder, limit: int) -> tuple[Ended, str | None]:
        try:
            over = await self._steps(environment, recorder, limit)
        except ContextTooLong as error:
            return "context", str(error)
        except ModelError as error:
            return "model", str(error)
        return ("done" if over else "steps"), None

    async def _steps(self, environment: Environment, recorder: Recorder, limit: int) -> bool:
        """Return True if the task was over before the steps were used up."""
        method = self.method()
        history = recorder.begin(method.name, _opening(environment))
        for _ in range(limit):
            began = time.perf_counter()
            compressed = await method.compress(list(history))
            if compressed.unanswered:  # with a model that answers, the run would have been another
                raise ModelError(f"{method.name} got no answer: {compressed.failure}")
            sent = time.perf_counter()
            turn = await self.model.answer(compressed.messages, environment.tools)
            recorder.step(compressed, turn, waited=sent - began, answered=time.perf_counter() - sent)
            history.append(turn.message)
            history.extend(answers := await _answers(environment, turn))
            if not answers or environment.is_over():
                return True
        return False


def _opening(environment: Environment) -> list[Message]:
    opening: list[Message] = [{"role": "system", "content": environment.system}] if environment.system else []
    if greeting := getattr(environment, "greeting", ""):
        opening.append({"role": "assistant", "content": greeting})
    return [*opening, {"role": "user", "content": environment.task}]


async def _answers(environment: Environment, turn: ModelAnswer) -> list[Message]:
    """Return the messages that answer a turn: a result for every call, or the user's words; none at the end."""
    calls = turn.message.get("tool_calls")
    if not calls:
        heard = await environment.hear(turn.text)
        return [] if heard is None else [{"role": "user", "content": heard}]
    limit = getattr(environment, "calls_per_turn", None)
    said = [await _observation(environment, call) for call in calls[:limit]]
    said += [f"Error: not done, a turn has at most {limit} calls."] * (len(calls) - len(said))
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in zip(calls, said, strict=True)
    ]


async def _observation(environment: Environment, call: Mapping[str, Any]) -> str:
    if environment.is_over():  # by an earlier call of the same turn
        return "Not done: the task was over."
    name = call["function"]["name"]
    known = [tool["function"]["name"] for tool in environment.tools]
    if name not in known:
        return f"Error: there is no tool {name!r}. Tools: {', '.join(known)}."
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except ValueError as error:
        return f"Error: the arguments are no JSON: {error}."
    if not isinstance(arguments, dict):
        return "Error: the arguments must be a JSON object."
    return await environment.act(ToolCall(call["id"], name, arguments))
