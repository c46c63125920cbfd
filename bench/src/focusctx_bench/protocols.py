"""Interfaces of the bench: a model answers, an environment acts, a benchmark has tasks.

The agent loop (`agent.py`) knows only these and writes a record (`record.py`). A benchmark is one file in
`benchmarks/`, a kind of model one file in `models/`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from focusctx.errors import ConfigError, ModelError
from focusctx.types import Message, Usage


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, Any]


def tool_definition(
    name: str, description: str, parameters: Mapping[str, Mapping[str, Any]], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return a Chat Completions tool definition. Parameters are JSON schemas by name."""
    required = [parameter for parameter in parameters if parameter not in optional]
    schema = {"type": "object", "properties": parameters, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One answer of the model: an assistant message, as it will be in the history."""

    message: Message
    usage: Usage = Usage()
    """Usage as the provider counts, system prompt included; `cost` at list prices without a cache, as in the paper."""
    cached_tokens: int = 0
    """Input tokens that were read from the provider's cache."""
    billed: float | None = 0.0
    """Cost of the request with the provider's cache prices; None where no price is known."""

    @property
    def text(self) -> str:
        return self.message.get("content") or ""


class ContextTooLong(ModelError):
    """The model cannot read that much. A result, not an accident: the task counts as failed."""


class Model(Protocol):
    """The agent's model. One object may answer many runs at once; it keeps nothing of them."""

    name: str

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        """Return one turn. `tools` are Chat Completions tool definitions. Retries by itself, then raises ModelError."""


@dataclass(frozen=True, slots=True)
class Score:
    """The outcome of a task, by the benchmark's own judgement."""

    success: float
    """1 or 0, or a share where the benchmark has one: what accuracy is the mean of."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further figures, as JSON: em, f1, failed checks. Numbers are averaged over tasks."""


class Environment(Protocol):
    """One task, under way.

    It may have a `greeting`, words that the agent has said before the user spoke, and `calls_per_turn`, the most calls
    of a turn that are carried out (None for all of them).
    """

    @property
    def system(self) -> str:
        """May be empty: then there is no system message."""

    @property
    def task(self) -> str: ...

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Chat Completions tool definitions. A benchmark whose actions are text has one tool for them."""

    async def act(self, call: ToolCall) -> str:
        """Return the observation. A mistake of the agent is an observation, too, not an error."""

    async def hear(self, text: str) -> str | None:
        """Return the user's answer to an agent that spoke instead of acting; None when the task is over."""

    def is_over(self) -> bool:
        """Return True if the last action ended the task."""

    async def score(self) -> Score:
        """Judge the task; called once, at the end, also when the steps ran out."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    id: str
    difficulty: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    step_limit: int = 50
    """The most turns of the agent, unless the user says otherwise."""


class Benchmark(Protocol):
    name: str

    def tasks(self) -> Sequence[Task]:
        """Return the tasks of the split, in a fixed order. Raises a BenchError that says how to get missing data."""

    async def start(self, task: Task) -> Environment: ...


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a benchmark."""

    data: Path | None = None
    """The folder or file with what the benchmark reads: a checkout, a data set."""
    split: str = ""
    """The split, as the benchmark names it; empty for the one the paper reports."""
    seed: int = 42
    more: Mapping[str, str] = field(default_factory=dict)
    """Options that only one benchmark has, by name: `domain=retail`, `user=openai:gpt-4.1`."""

    def check(self, benchmark: str, known: Sequence[str]) -> None:
        """Refuse options that the benchmark does not have: a mistyped one would silently run something else."""
        if unknown := sorted(self.more.keys() - set(known)):
            raise ConfigError(f"unknown setting {unknown[0]!r} of {benchmark}; known: {', '.join(known)}")
