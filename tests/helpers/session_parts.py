"""Parts for tests of sessions: histories of known size, a draft that can be watched, a store that can break."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from focusctx import Focus
from focusctx.errors import StoreError
from focusctx.session.session import Session
from focusctx.session.store import MemoryStore
from focusctx.types import Prompt, Reply, Usage
from helpers.histories import Messages, call

NOTHING = "Step: finish | Depends on: []"
WHOLE_STEPS: dict[str, Any] = {"levels": False, "target": None}
"""Settings under which a step stays or goes as a whole, as in the paper."""
SYSTEM = {"role": "system", "content": "You help."}


def crosses(text: str) -> int:
    """Counts tokens where every `x` is one and nothing else is any: sizes in tests are then plain numbers."""
    return text.count("x")


def sized(*sizes: int, task: int = 0, name: str = "") -> Messages:
    """A chat history whose steps have exactly these sizes, counted by `crosses`."""
    messages: Messages = [SYSTEM, {"role": "user", "content": f"Do it{name}. {'x' * task}"}]
    for number, size in enumerate(sizes, 1):
        messages.append({"role": "assistant", "content": f"thought {number}", "tool_calls": [call(number)]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "x" * size})
    return messages


def growing(messages: Messages) -> list[Messages]:
    """The history at each of the agent's calls."""
    ends = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    return [messages[:end] for end in (*ends, len(messages))]


STEPS = growing(sized(*[100] * 16))


def calls_in(view: Sequence[Any]) -> set[str]:
    return {message["tool_call_id"] for message in view if message["role"] == "tool"}


def cites(*spans: int) -> str:
    return f"Step: finish | Depends on: [{', '.join(f's_{span}' for span in spans)}]"


def everything(prompt: Prompt) -> str:
    return cites(*(span.index for span in prompt.history.spans))


class Draft:
    """Says what a function of the prompt says, and can be watched while it does."""

    def __init__(
        self,
        plan: str | Callable[[Prompt], str] = NOTHING,
        *,
        seconds: float = 0.0,
        usage: Usage | None = None,
        name: str = "watched",
    ) -> None:
        self.name = name
        self.calls = 0
        self.prompts: list[Prompt] = []
        self.under_way = 0
        self.most_under_way = 0
        self.cancelled = 0
        self._plan = plan
        self._seconds = seconds
        self._usage = usage or Usage(requests=1)
        self._lock = threading.Lock()

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        with self._lock:
            self.calls += 1
            self.prompts.append(prompt)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self._seconds)
            for number in range(n):
                text = self._plan if isinstance(self._plan, str) else self._plan(prompt)
                yield Reply(text, self._usage if number == 0 else Usage())
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            with self._lock:
                self.under_way -= 1


class BreakableStore(MemoryStore):
    """Raises in the methods that are named in `broken`."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = set(broken)
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("version", "events", "commit", "archived", "add", "restore", "restored"):
            return found
        self.asked.append(name)
        return self._raise if name in self.broken else found

    def _raise(self, *arguments: object) -> Any:
        raise StoreError("the disk is full")


def session_of(draft: Any, store: Any = "memory", *, budget: int = 300, **options: Any) -> Session:
    """Return a session of whole steps, in which nothing happens in the background unless asked for."""
    named = ("rollouts", "deadline", "pin", "levels", "target", "reads")
    settings = WHOLE_STEPS | {key: options.pop(key) for key in named if key in options}
    focus = Focus(draft, budget=budget, tokens=options.pop("tokens", crosses), **settings)
    return focus.session(store, **{"ahead": 1.0, **options})


def moved(session: Session) -> list[Any]:
    return [event for event in session.events if event.happened]


def sent(session: Session, histories: Iterable[Messages]) -> list[Sequence[Any]]:
    return [session.view(history) for history in histories]


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()
