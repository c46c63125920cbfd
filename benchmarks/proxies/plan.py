"""The requests that are sent: 32 conversations, each with what comes before (not measured) and the requests that are
measured.

- `growing`: the whole history, one step longer with every request;
- `same`: one request again and again, the simplest there is;
- `crossing`: the one request in which a history grows beyond the budget.

All of them stand around the same place: the request in which the history crosses the size's budget. Histories are
in Chat Completions format, the same for the same seed: a coding agent and what its tools print. They grow by one
step: an assistant turn with a thought and a tool call, and the tool's result. Every step has text of its own, so
that nothing can be remembered from another conversation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from focusctx import Focus
from focusctx.drafts import ScriptedDraft

WORKLOADS = ("growing", "same", "crossing")
STEP = 300
STEPS = 3
_counter = Focus(ScriptedDraft(["never asked"]), budget=10**9)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": purpose,
            "parameters": {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys},
        },
    }
    for name, purpose, keys in (
        ("bash", "Run a command in the project's container and return what it prints.", ["command"]),
        ("read", "Return a part of a file with line numbers.", ["path", "lines"]),
        ("query", "Ask the ticket system; the answer is JSON.", ["path"]),
    )
]
SYSTEM = (
    "You are a careful software engineer with a shell. Work in small steps: say what you want to find out, call one "
    "tool, read its result, go on. Never change the tests. Keep the public interface as it is. When you are done, run "
    "the whole test suite once more and end with a summary of the change. "
)
NOUNS = (
    "session", "ledger", "parser", "router", "cursor", "invoice", "schema", "migration", "token", "header", "worker",
    "queue", "cache", "policy", "tenant", "record", "window", "batch", "report", "account", "payload", "handler",
)  # fmt: skip
VERBS = ("load", "merge", "flush", "resolve", "decode", "apply", "split", "render", "retry", "close", "check", "find")
BYTES_PER_TOKEN = 3.95
"""Bytes of JSON per token of the text in it, under cl100k_base."""


@dataclass(frozen=True)
class Size:
    """Histories of about that many tokens, and the budget that they cross. After it the next sketches are still far."""

    name: str
    budget: int
    higher: int
    """A budget that they come near and do not reach."""
    weight: int
    """Short requests are measured so many times as often."""
    keep_every: int
    """Every n-th step before the crossing is kept; 0 for none, where few steps fill the budget again."""


SIZES = (Size("2k", 1900, 4100, 2, 0), Size("30k", 29_500, 40_000, 1, 2))


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    size: Size
    stream: bool
    workload: str

    @property
    def name(self) -> str:
        return f"{self.size.name} {'stream' if self.stream else 'whole'}"


@dataclass(frozen=True)
class Requests:
    """The requests of one conversation."""

    before: list[bytes]
    measured: list[bytes]


@lru_cache(maxsize=1)  # the contenders get the same ones, in turns
def conversations(cell: Cell, number: int, seed: str) -> list[Requests]:
    """Distinct ones for every cell and seed: a proxy that knows conversations has not seen them."""
    if cell.workload == "same":
        one = _conversation(cell, seed)
        return [Requests(one.before, one.measured[:1] * STEPS) for _ in range(number)]
    return [_conversation(cell, f"{seed}-{place}") for place in range(number)]


def _conversation(cell: Cell, seed: str) -> Requests:
    history = Conversation(f"{cell.name} {cell.workload} {seed}")
    below = b""
    while tokens(history) <= cell.size.budget:
        below = history.body(stream=cell.stream)
        history.step(STEP)
    across = history.body(stream=cell.stream)
    if cell.workload == "crossing":
        return Requests([below], [across])
    measured = []
    for _ in range(STEPS):
        history.step(STEP)
        measured.append(history.body(stream=cell.stream))
    return Requests([across], measured)


def tokens(history: Conversation) -> int:
    """Count tokens as the budget does: without the system prompt."""
    return _counter.compress([json.loads(message) for message in history.messages]).tokens_before


def listing(rng: random.Random) -> str:
    day, noun, verb = rng.randrange(1, 29), rng.choice(NOUNS), rng.choice(VERBS)
    return f"-rw-r--r--  1 app app {rng.randrange(90000):>6} Mar {day:>2} {rng.randrange(24):02}:17 {noun}_{verb}.py"


def matches(rng: random.Random) -> str:
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    return f"./src/{noun}/{verb}.py:{rng.randrange(900)}:        self.{noun}.{verb}({rng.choice(NOUNS)}, limit=None)"


def tests(rng: random.Random) -> str:
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    outcome = "FAILED" if rng.random() < 0.1 else "PASSED"
    return f"tests/{noun}/test_{verb}.py::test_{verb}_{rng.choice(NOUNS)} {outcome} [{rng.randrange(100):>3}%]"


def source(rng: random.Random) -> str:
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    return (
        f"    def {verb}_{noun}(self, {rng.choice(NOUNS)}: str) -> int:\n"
        f'        """The {noun} that {rng.choice(NOUNS)} {rng.randrange(5000)} waits for, or none."""\n'
        f"        return self._{noun}.{verb}(self.{rng.choice(NOUNS)}, {rng.randrange(64)})\n"
    )


def records(rng: random.Random) -> str:
    fields = {
        "id": f"{rng.getrandbits(32):08x}",
        "kind": rng.choice(NOUNS),
        "owner": f"{rng.choice(NOUNS)}-{rng.randrange(90)}@example.com",
        "total": rng.randrange(10**6) / 100,
        "open": rng.random() < 0.5,
    }
    return json.dumps(fields) + ","


KINDS: tuple[tuple[str, str, Callable[[random.Random], str]], ...] = (
    ("bash", "command", listing),
    ("bash", "command", matches),
    ("bash", "command", tests),
    ("read", "path", source),
    ("query", "path", records),
)


class Conversation:
    """A history; `body` is the request that sends all of it."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        self._size = 0
        self.messages: list[bytes] = []
        """As JSON."""
        self._steps = 0
        self._add({"role": "system", "content": SYSTEM})
        task = f"Ticket {seed}: {self._sentence()} {self._sentence()} Find the cause and repair it."
        self._add({"role": "user", "content": task})

    def step(self, tokens: int) -> None:
        """One more step of about that many tokens."""
        wanted = self._size + tokens * BYTES_PER_TOKEN
        tool, key, line = self._rng.choice(KINDS)
        self._steps += 1
        name = f"call_{self._rng.getrandbits(64):016x}"
        thought = " ".join(self._sentence() for _ in range(2))
        wish = f"{self._rng.choice(VERBS)} {self._rng.choice(NOUNS)}/{self._rng.getrandbits(24):x}"
        function = {"name": tool, "arguments": json.dumps({key: wish, "step": self._steps})}
        call = {"id": name, "type": "function", "function": function}
        self._add({"role": "assistant", "content": thought, "tool_calls": [call]})
        lines = [f"<exit>0</exit> {wish}"]
        room = wanted - self._size - 150
        while room > 0:
            lines.append(line(self._rng))
            room -= len(json.dumps(lines[-1]))
        self._add({"role": "tool", "tool_call_id": name, "content": "\n".join(lines)})

    def body(self, *, stream: bool) -> bytes:
        """Keys in the order in which the OpenAI SDK writes them."""
        rest = {"model": "gpt-4.1", **({"stream": True} if stream else {}), "tools": TOOLS}
        after = json.dumps(rest, separators=(",", ":")).encode()
        return b'{"messages":[' + b",".join(self.messages) + b"]," + after[1:]

    def _add(self, message: dict[str, object]) -> None:
        encoded = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        self._size += len(encoded)
        self.messages.append(encoded)

    def _sentence(self) -> str:
        noun, other, verb = self._rng.choice(NOUNS), self._rng.choice(NOUNS), self._rng.choice(VERBS)
        return f"The {noun} does not {verb} its {other} after {self._rng.randrange(400)} calls, so I look there next."
