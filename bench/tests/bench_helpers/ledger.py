"""The ledger of `tests/helpers/task.py` as a benchmark with one task, and models that do it."""

from collections.abc import Mapping, Sequence
from typing import Any

from focusctx.baselines.rules import NoCompression as Untouched
from focusctx.types import Message
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Score, Task, ToolCall
from helpers import task as ledger
from helpers.provider import Received

__all__ = ["Audit", "Ledger", "Untouched", "auditor", "decide"]


class Audit:
    """The environment."""

    system = "You audit ledgers."
    task = ledger.TASK
    tools: Sequence[Mapping[str, Any]] = ledger.chat_tools()

    def __init__(self) -> None:
        self.said = ""
        self.calls: list[ToolCall] = []
        self.closed = False

    async def act(self, call: ToolCall) -> str:
        self.calls.append(call)
        try:
            return ledger.run_tool(call.name, call.arguments)
        except ledger.ToolFailure as failure:
            return f"Error: {failure}"

    async def hear(self, text: str) -> str | None:
        self.said = text
        return None

    def is_over(self) -> bool:
        return False

    async def score(self) -> Score:
        return Score(float(self.said == ledger.FINAL), {"pages": len(self.calls)})

    async def close(self) -> None:
        self.closed = True


class Ledger:
    name = "ledger"

    def __init__(self) -> None:
        self.started: list[Audit] = []

    def tasks(self) -> list[Task]:
        return [Task("audit", "hard")]

    async def start(self, task: Task) -> Audit:
        self.started.append(Audit())
        return self.started[-1]


def decide(messages: Sequence[Message]) -> Say:
    """The scripted provider's model, asked in place."""
    said = ledger.model(Received("POST", "/chat/completions", {}, b"", {"messages": list(messages)}))
    return Say(said.text, [(call.name, call.arguments) for call in said.calls])


def auditor() -> FunctionModel:
    return FunctionModel(decide)
