"""Small recorded runs, made by hand, whose evidence can be told by reading them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from focusctx.replay.runs import Run
from focusctx.types import Message
from focusctx.wire import recognise

Json = dict[str, Any]


def step(number: int, arguments: Json, output: str, thought: str = "") -> list[Json]:
    function = {"name": "read", "arguments": json.dumps(arguments)}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": thought or f"thought {number}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def chat(*steps: list[Json], task: str = "Refund order W1111111 for ann@example.org.") -> list[Json]:
    start: list[Json] = [{"role": "system", "content": "Shop rules: policy_v2."}, {"role": "user", "content": task}]
    return start + [message for some in steps for message in some]


SHOPPING = chat(
    step(1, {"order": "W1111111"}, "items: 7777001, 7777002; account pay_4242"),
    step(2, {"item": "7777001"}, "Error: item 7777001 is locked"),
    step(3, {"account": "pay_4242"}, "balance 1.50", thought="The account is pay_4242."),
    step(4, {"item": "7777001"}, "Error: item 7777001 is locked"),
    step(5, {"item": "7777002", "under": "policy_v2", "to": "ann@example.org"}, "refund_9999 done"),
    [{"role": "user", "content": "Tell me about refund_8888 too."}],
    step(6, {"refunds": ["refund_9999", "refund_8888"]}, "ok"),
)
"""Span 1 gives both items and the account; 2 and 4 are the same failing call; 5 uses an item of span 1 and what the
system prompt and the user said; 6 uses what span 5 gave and what the user said."""


def run_of(messages: Sequence[Message], id: str = "run", file: str = "log.jsonl") -> Run:
    return Run(file, id, tuple(messages), recognise(messages).name)


def long_run(steps: int = 12, id: str = "long") -> Run:
    """Every step reads a page with an id on it that a step three later acts on; about 60 tokens each."""
    made = [
        step(
            number,
            {"page": f"page_{number:04}", "use": f"key_{number - 3:04}"}
            if number > 3
            else {"page": f"page_{number:04}"},
            f"key_{number:04} " + " ".join(f"word{number}" for _ in range(20)),
        )
        for number in range(1, steps + 1)
    ]
    return run_of(chat(*made, task="Read all pages."), id)


def write(path: Path, *runs: Run) -> Path:
    lines = [json.dumps({"id": run.id, "messages": list(run.messages)}) for run in runs]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
