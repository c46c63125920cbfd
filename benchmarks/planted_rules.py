"""Put a rule into an early result of a recorded run, as `rules.py` needs it: its wordings, and where it can stand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from focusctx.replay.runs import Run
from focusctx.types import Message

WORDS: Mapping[str, Mapping[str, str]] = {
    "coding": {
        "do": "remove a public function",
        "doing": "removing a public function",
        "things": "removals of public functions",
        "who": "the release manager",
    },
    "service": {
        "do": "waive a late fee",
        "doing": "waiving a late fee",
        "things": "waivers of late fees",
        "who": "the duty supervisor",
    },
    "office": {
        "do": "forward a contract",
        "doing": "forwarding a contract",
        "things": "forwarded contracts",
        "who": "the front office",
    },
}
CUED = {
    "never": "Never {do} without a written note from {who}.",
    "do not": "Do not {do} on a Friday.",
    "at most": "At most two {things} are allowed in one piece of work.",
    "always": "Always inform {who} when you {do}.",
    "must not": "New colleagues must not {do} on their own.",
    "must first": "Anyone who wants to {do} must first ask {who}.",
}
PLAIN = {
    "only": "Only {who} can {do}.",
    "needs": "It takes a written note from {who} to {do}.",
    "limit": "The limit for {things} is two in one piece of work.",
    "reserved": "The right to {do} is reserved for {who}.",
    "please": "Please leave {things} to {who}.",
    "before": "Before {doing}, a word with {who} comes first.",
}
WORDINGS = {**CUED, **PLAIN}
FILLER = (
    "This page was written for everybody who takes part in the work described here.",
    "It replaces the version of last spring, which some of you may remember.",
    "Questions about it are answered in the weekly round, usually within a day.",
    "The team grew from four to eleven people over the last two years.",
    "Most of the work is done in small steps, each of which is looked at by a colleague.",
    "A glossary of the terms used here is kept in the shared folder.",
    "The page is reviewed twice a year, in March and in September.",
    "Thanks go to all who sent corrections to the last version.",
)
PLACES = ("line", "paragraph", "passing")
PLACE_NAMES = {
    "line": "a policy that was opened, a line of its own",
    "paragraph": "a policy that was opened, inside a paragraph",
    "passing": "an ordinary result, in passing",
}


@dataclass(frozen=True)
class Case:
    """A run with a rule in it."""

    run: Run
    kind: str
    budget: int
    wording: str
    place: str

    @property
    def file(self) -> str:
        return self.run.file.removesuffix(".jsonl")

    @property
    def rule(self) -> str:
        filled = WORDINGS[self.wording].format(**WORDS[self.kind])
        return filled[0].upper() + filled[1:]


def with_rule(case: Case) -> list[Message]:
    """Return the run's messages with the rule in an early result."""
    messages = list(case.run.messages)
    place = first_result(case.run)
    assert place is not None
    if case.place == "passing":
        messages[place] = {**messages[place], "content": _mentioning(str(messages[place]["content"]), case.rule)}
        return messages
    lines = [*FILLER[:4], case.rule, *FILLER[4:]]
    page = "\n".join(f"- {line}" for line in lines) if case.place == "line" else " ".join(lines)
    after = next(
        (later for later in range(place + 1, len(messages)) if messages[later]["role"] == "assistant"), len(messages)
    )
    return [*messages[:after], *_reading(messages[place], page), *messages[after:]]


def first_result(run: Run) -> int | None:
    """Return the place of the first result of a tool or a command that has some length."""
    seen_turn = False
    shell = not any(message["role"] == "tool" for message in run.messages)
    for place, message in enumerate(run.messages):
        is_result = message["role"] == "tool" or (shell and seen_turn and message["role"] == "user")
        if is_result and len(str(message.get("content") or "")) > 200:
            return place
        seen_turn = seen_turn or message["role"] == "assistant"
    return None


def _mentioning(result: str, rule: str) -> str:
    """Return the result with the rule in it: as a field of a JSON object, else as a line in the middle."""
    try:
        value: Any = json.loads(result)
    except ValueError:
        value = None
    if isinstance(value, dict):
        fields = list(value.items())
        middle = len(fields) // 2
        return json.dumps(dict([*fields[:middle], ("note", rule), *fields[middle:]]), ensure_ascii=False)
    lines = result.split("\n")
    if len(lines) < 3:
        return f"{result} {rule}"
    middle = len(lines) // 2
    return "\n".join([*lines[:middle], rule, *lines[middle:]])


def _reading(like: Message, page: str) -> list[Message]:
    """Return a step in which the agent opens the policy, in the way of the run's other calls."""
    if like["role"] == "user":
        said = "THOUGHT: Let me read the policy of this project first.\n\n```bash\ncat docs/policy.md\n```"
        output = f"<returncode>0</returncode>\n<output>\n{page}\n</output>"
        return [{"role": "assistant", "content": said}, {"role": "user", "content": output}]
    call = {"name": "read_page", "arguments": json.dumps({"title": "policy"})}
    if "<returncode>" in str(like["content"]):
        call = {"name": "bash", "arguments": json.dumps({"command": "cat docs/policy.md"})}
        page = f"<returncode>0</returncode>\n<output>\n{page}\n</output>"
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_rule", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_rule", "content": page},
    ]
