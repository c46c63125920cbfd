"""Runs of the scripted agent through the office, each made once."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from bench_helpers.ledger import Untouched
from focusctx.baselines.method import Compressed
from focusctx.types import Message
from focusctx_bench.agent import Agent
from focusctx_bench.benchmarks.office import Office, OfficeTask, scripted
from focusctx_bench.protocols import ToolCall
from focusctx_bench.record import Record


@cache
def full_run(number: int, seed: int = 42) -> Record:
    return run(number, Untouched, seed)


def run(number: int, method: Callable[[], Any], seed: int = 42) -> Record:
    office = Office(seed)
    return asyncio.run(Agent(scripted(), method).run(office, office.task(number)))


def start(number: int, seed: int = 42) -> OfficeTask:
    office = Office(seed)
    return asyncio.run(office.start(office.task(number)))


def act(environment: OfficeTask, tool: str, /, **arguments: Any) -> str:
    return asyncio.run(environment.act(ToolCall("call_1", tool, arguments)))


def without(messages: Sequence[Message], dropped: frozenset[int]) -> list[Message]:
    """The messages of all steps but these; steps are numbered from 1."""
    left, step = [], 0
    for message in messages:
        step += message["role"] == "assistant"
        if step not in dropped:
            left.append(message)
    return left


class Dropping:
    """Drops what it is told at each step: from the number of the step about to be made to the steps to leave out."""

    name = "dropping"

    def __init__(self, choose: Callable[[int], frozenset[int]]) -> None:
        self._choose = choose

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        step = 1 + sum(message["role"] == "assistant" for message in messages)
        dropped = self._choose(step)
        return Compressed(without(messages, dropped), happened=bool(dropped))
