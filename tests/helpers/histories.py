"""Small hand-made histories that many tests use."""

from typing import Any

Messages = list[dict[str, Any]]


def call(number: int, name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def step(number: int, output: str = "") -> Messages:
    """One assistant turn with one tool call, and its result."""
    return [
        {"role": "assistant", "content": f"thought {number}", "tool_calls": [call(number)]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": output or f"result {number}"},
    ]


def run(steps: int) -> Messages:
    """A system prompt, a task, and so many steps."""
    start: Messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Do the task."}]
    return start + [message for number in range(1, steps + 1) for message in step(number)]
