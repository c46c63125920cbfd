"""What the parts of the bench agree on: a model answers, an environment acts, a benchmark has tasks, a record says all.

The agent loop (`agent.py`) knows only these. A benchmark is one file in `benchmarks/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..types import Message, Usage


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model said: an assistant message, as it will stand in the history."""

    message: Message
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        return self.message.get("content") or ""


class Model(Protocol):
    """The agent's model."""

    name: str

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Turn:
        """One turn. `tools` are Chat Completions tool definitions. Retries by itself; raises ModelError for good."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a task went, by the benchmark's own judgement."""

    success: float
    """1 or 0, or a share where the benchmark has one: what accuracy is the mean of."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else it says: em, f1, failed checks."""


class Environment(Protocol):
    """One task, under way."""

    system: str
    task: str
    tools: Sequence[Mapping[str, Any]]
    """Chat Completions tool definitions. A benchmark whose actions are text has one tool for them."""

    async def act(self, call: ToolCall) -> str:
        """The observation. What the agent does wrong is an observation too, not an error."""

    async def hear(self, text: str) -> str | None:
        """The agent spoke instead of acting: what the user answers, or None when the task is over."""

    def is_over(self) -> bool:
        """Whether the last action ended the task."""

    async def score(self) -> Score: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    id: str
    difficulty: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class Benchmark(Protocol):
    name: str

    def tasks(self) -> Sequence[Task]:
        """All of the chosen split, in a fixed order. Raises BenchError that says how to get what is missing."""

    async def start(self, task: Task) -> Environment: ...
