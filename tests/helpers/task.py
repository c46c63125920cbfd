"""A long task for any agent with tools: a ledger of thirty pages, read one page a step, with a fixed outcome.

The scripted model decides from the newest tool result alone, so it goes on just as well when old steps are gone.
"""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.provider import Received
from spoken import Call, Say

STEPS = 30
FAILING = 7
"""The step whose call fails."""

TASK = (
    "Audit the warehouse ledger. Read every page in order, trace each lot that was moved three pages earlier, and "
    "verify the balance at every fifth page. One page may be locked: note it and go on. Then report the total."
)

_RESULT = re.compile(rf"Page (\d+) of {STEPS}\b")
_GOODS = ("copper fittings", "ball valves", "cable drums", "steel brackets", "gaskets", "circuit breakers")
_PEOPLE = ("M. Okafor", "L. Brandt", "S. Iyer", "J. Castillo", "H. Lindqvist")


class ToolFailure(Exception):
    """The tool could not do it; the text says why."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: dict[str, Any]


def _schema(**properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


TOOLS = [
    Tool("read_page", "Read one page of the ledger.", _schema(page="integer")),
    Tool("trace_lot", "Find out what happened to a lot.", _schema(page="integer", lot="string")),
    Tool("verify_balance", "Check the balance carried on a page.", _schema(page="integer", expected="integer")),
]


def chat_tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema, "strict": True},
        }
        for tool in TOOLS
    ]


def responses_tools() -> list[dict[str, Any]]:
    return [{"type": "function", **tool["function"]} for tool in chat_tools()]


def anthropic_tools() -> list[dict[str, Any]]:
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in TOOLS]


def lot(page: int) -> str:
    """The lot that a page says was moved."""
    return f"KX-{(page * 7919) % 9000 + 1000}"


def balance(page: int) -> int:
    return 12_400 + sum((number * 137) % 311 for number in range(1, page + 1))


FINAL = f"The audit is done. {STEPS} pages read, page {FAILING} was locked, the closing balance is {balance(STEPS)}."


def run_tool(name: str, arguments: Mapping[str, Any]) -> str:
    """What the tool says. Raises `ToolFailure` for the one call that fails."""
    page = int(arguments["page"])
    if not 1 <= page <= STEPS:
        raise ToolFailure(f"There is no page {page}.")
    if page == FAILING:
        raise ToolFailure(
            f"Page {page} of {STEPS} is locked by {_PEOPLE[page % 5]} until the stock count is signed off."
        )
    if name == "read_page":
        return f"Page {page} of {STEPS}. Balance {balance(page)}. Moved: lot {lot(page)}.\n{_entries(page, 9)}"
    if name == "trace_lot":
        return f"Page {page} of {STEPS}: trace of lot {arguments['lot']}.\n{_entries(1000 + page, 5)}"
    if name == "verify_balance":
        agrees = "agrees" if arguments["expected"] == balance(page) else "does not agree"
        return f"Page {page} of {STEPS}: the balance {agrees} with the carried total {balance(page)}."
    raise ToolFailure(f"There is no tool {name}.")


def _entries(seed: int, lines: int) -> str:
    chance = random.Random(seed)
    return "\n".join(
        f"- lot KX-{chance.randrange(1000, 10_000)}: {chance.randrange(12, 900)} units of {chance.choice(_GOODS)} "
        f"in bay {chance.randrange(1, 60)}, counted by {chance.choice(_PEOPLE)} on {chance.randrange(1, 29)} March, "
        f"difference {chance.randrange(-9, 10)}"
        for _ in range(lines)
    )


def turn(step: int) -> Say:
    """What the model says to begin a step."""
    calls = [Call("read_page", {"page": step})]
    if step % 5 == 0:
        calls.append(Call("trace_lot", {"page": step, "lot": lot(step - 3)}))
    if step % 10 == 0:
        calls.append(Call("verify_balance", {"page": step, "expected": balance(step)}))
    return Say(f"Next is page {step}.", tuple(calls), f"The pages before {step} are done, so {step} comes next.")


def model(received: Received) -> Say:
    """Goes on after the newest page that the request shows."""
    done = 0
    for message in reversed(received.messages):
        if pages := _RESULT.findall(json.dumps(message)):
            done = int(pages[-1])
            break
    return turn(done + 1) if done < STEPS else Say(FINAL)
