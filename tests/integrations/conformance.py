"""Holds every framework to one standard: the same long task, run with and without focusctx, seen from the provider.

A framework's test file has a subclass of `Conformance` that says how to run the task; the rest is here.
"""

import asyncio
import json
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from focusctx import Focus, Message
from focusctx.drafts.scripted import ScriptedDraft
from focusctx.integrations.plug import Caller, Plug, Source
from focusctx.invariants import violations
from focusctx.session.session import Session
from focusctx.session.stores import store_from
from helpers import task
from helpers.prefixes import is_shortened, moves, spelled
from helpers.provider import Provider, Received, Say
from integrations.page import run_page

BUDGET = 3000
"""A fifth of what the whole task comes to."""

HANGS = 120
"""Seconds after which a run is taken to hang; under load it may take a minute."""

ROOT = Path(__file__).parents[2]


@dataclass
class Run:
    """One agent doing the whole task, and what the provider saw of it."""

    answer: str = ""
    history: list[Any] = field(default_factory=list)
    requests: list[Received] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    said: list[Say] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(event.happened for session in self.sessions for event in session.events)

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]


class Broken(Session):
    """A session with a bug."""

    def view(self, messages: Any, **more: Any) -> list[Message]:
        raise RuntimeError("a bug in focusctx")

    async def aview(self, messages: Any, **more: Any) -> list[Message]:
        raise RuntimeError("a bug in focusctx")


def compressing() -> Focus:
    return Focus("offline", budget=BUDGET)


def failing() -> Focus:
    return Focus(ScriptedDraft([ConnectionError("no draft today")]), budget=BUDGET)


def silent() -> Focus:
    async def never(prompt: Any) -> str:
        await asyncio.Event().wait()
        return ""

    return Focus(never, budget=BUDGET, deadline=0.2)


class Conformance:
    """Subclasses say how their framework runs `task.TASK` with `task.TOOLS`."""

    name: ClassVar[str]
    """The name of the file in `focusctx.integrations`."""
    modes: ClassVar[tuple[str, ...]] = ("sync",)
    """The ways the framework can be run; `run` is told which."""
    imports: ClassVar[tuple[str, ...]]
    """The framework's modules the integration may import."""
    page_calls: ClassVar[int] = 12
    """How many tools the model calls in the example on the page."""

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        """Do the task on the provider at that URL. The answer, and the framework's own history afterwards, as plain
        data without what is different in every run."""
        raise NotImplementedError

    def done(self, mode: str, make: Callable[..., Session] | None) -> Run:
        """Do the task with sessions made like that; without focusctx where there is no way to make one."""
        sessions: list[Session] = []

        def session(caller: Caller) -> Session:
            assert make is not None
            sessions.append(make(tenant=caller.tenant))
            return sessions[-1]

        run = self.watched(mode, None if make is None else session)
        run.sessions = sessions
        return run

    def watched(self, mode: str, focus: Source | None) -> Run:
        """Do the task on a provider of its own."""
        run = Run()

        def model(received: Received) -> Say:
            run.said.append(task.model(received))
            return run.said[-1]

        with Provider(model) as provider:
            run.answer, run.history = self.run(mode, provider.url, focus)
            run.requests, run.rejected = list(provider.received), list(provider.rejected)
        return run

    @pytest.fixture(scope="class")
    @classmethod
    def plain(cls, mode: str) -> Run:
        return cls().done(mode, None)

    @pytest.fixture(scope="class")
    @classmethod
    def focused(cls, mode: str) -> Iterator[Run]:
        run = cls().done(mode, compressing().session)
        yield run
        for session in run.sessions:
            session.close()

    def test_the_task_is_done_without_focusctx(self, plain: Run) -> None:
        """The run that the others are compared to: all steps, parallel calls, one failing tool."""
        assert plain.answer == task.FINAL
        assert plain.said == [*(task.turn(step) for step in range(1, task.STEPS + 1)), Say(task.FINAL)]
        assert max(len(say.calls) for say in plain.said) == 3
        assert not plain.rejected
        assert not moved(plain.requests)

    def test_the_same_answer_by_the_same_calls(self, plain: Run, focused: Run) -> None:
        assert focused.answer == task.FINAL
        assert focused.said == plain.said

    def test_what_is_sent_is_legal(self, focused: Run) -> None:
        assert not focused.rejected
        for request in focused.requests:
            assert request.format is not None
            assert not violations(request.messages, request.format)

    def test_what_is_sent_is_compressed(self, plain: Run, focused: Run) -> None:
        sizes = [(len(small.raw), len(large.raw)) for small, large in both(focused, plain)]
        assert focused.events >= 2
        assert all(small <= large for small, large in sizes)
        assert sizes[-1][0] < 0.6 * sizes[-1][1]

    def test_only_messages_are_left_out(self, plain: Run, focused: Run) -> None:
        for small, large in both(focused, plain):
            whole = iter(spelled(large))
            for message in spelled(small):
                if not is_shortened(message):
                    assert any(is_original(message, original) for original in whole), message
            assert without_messages(small) == without_messages(large)

    def test_the_prefix_moves_at_events_only(self, focused: Run) -> None:
        assert moved(focused.requests) == focused.events

    def test_the_history_of_the_framework_is_whole(self, plain: Run, focused: Run) -> None:
        assert focused.history == plain.history
        text = json.dumps(plain.history)
        assert all(f"Page {step} of {task.STEPS}" in text for step in range(1, task.STEPS + 1))

    def test_a_draft_that_fails_leaves_the_run_as_it_was(self, mode: str, plain: Run) -> None:
        run = self.done(mode, failing().session)
        assert any(event.cause == "draft" for session in run.sessions for event in session.events)
        assert (run.answer, run.history, run.bodies) == (plain.answer, plain.history, plain.bodies)

    def test_a_bug_in_focusctx_leaves_the_run_as_it_was(self, mode: str, plain: Run) -> None:
        run = self.done(mode, lambda tenant: Broken(compressing(), tenant=tenant))
        assert run.sessions
        assert (run.answer, run.history, run.bodies) == (plain.answer, plain.history, plain.bodies)

    def test_a_draft_that_never_answers_leaves_the_run_as_it_was(self, edge: str) -> None:
        (run,) = together(1, lambda: self.done(edge, silent().session))
        reasons = [event.why for session in run.sessions for event in session.events]
        assert any("within 0.2 s" in why for why in reasons), reasons
        assert run.answer == task.FINAL
        assert not moved(run.requests)

    def test_four_threads_with_loops_of_their_own_and_the_same_words(self, edge: str) -> None:
        """They share an integration's sessions. Nothing hangs, and each is compressed."""
        plug = Plug(compressing())
        runs = together(4, lambda: self.watched(edge, plug))
        plug.close()
        assert plug.savings.tokens_saved > 0
        for run in runs:
            assert (run.answer, run.rejected) == (task.FINAL, [])
            assert run.history == runs[0].history
            assert len(run.requests[-1].raw) < 0.6 * len(json.dumps(run.history))

    def test_two_tenants_with_the_same_words(self, tmp_path: Path) -> None:
        """One after the other, over one store: the second finds nothing of the first."""
        focus, store = compressing(), store_from(f"sqlite:///{tmp_path / 'focus.db'}")
        plug = Plug(lambda caller: focus.session(store, tenant=caller.tenant), lambda caller: tenant)
        sent: list[list[Any]] = []
        for tenant in ("acme", "globex"):
            assert not store.recent(tenant, 10)
            sent.append(self.watched(self.modes[0], plug).bodies)
        assert {conversation.tenant for conversation in plug.conversations} == {"acme", "globex"}
        happened = sum(event.happened for event in plug.events)
        plug.close()
        for tenant in ("acme", "globex"):
            assert 2 * store.totals(tenant).events == happened > 0
            assert 2 * store.totals(tenant).tokens_saved == plug.savings.tokens_saved > 0
        assert sent[0] == sent[1]  # decided anew: a decision that was followed would not be an event
        store.close()

    def test_excerpts_and_the_note_about_missing_steps_arrive(self) -> None:
        """Excerpts of long results, and the line that says what is missing: the two things a view adds."""
        focus = compressing()
        run = self.done(self.modes[0], lambda tenant: focus.session(tenant=tenant, recall=True))
        assert run.answer == task.FINAL
        assert not run.rejected
        assert moved(run.requests) == run.events > 0
        assert is_shortened(run.requests[-1].raw.decode())
        assert "[Left out to save space: " in run.requests[-1].raw.decode()

    def test_importing_it_imports_this_framework_only(self) -> None:
        with_it = loaded(f"focusctx.integrations.{self.name}")
        assert with_it - loaded(*self.imports) <= {"focusctx"}

    def test_the_code_on_the_page_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        requests = run_page(ROOT / "docs" / "integrations" / f"{self.name.replace('_', '-')}.md", self.page_calls)
        assert moved(requests), "the page's agent compresses"


def together(count: int, work: Callable[[], Any]) -> list[Any]:
    """Do the work in that many threads at a time. A thread that hangs is an error that shows where."""
    futures: list[Future[Any]] = [Future() for _ in range(count)]

    def do(future: Future[Any]) -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threads = [threading.Thread(target=do, args=(future,), daemon=True) for future in futures]
    for thread in threads:
        thread.start()
    _, hanging = wait(futures, HANGS)
    frames = sys._current_frames()
    stacks = ["".join(traceback.format_stack(frames[thread.ident])) for thread in threads if thread.ident in frames]
    assert not hanging, "\n\n".join(["a run hangs", *stacks])
    return [future.result() for future in futures]


def both(run: Run, other: Run) -> list[tuple[Received, Received]]:
    return list(zip(run.requests, other.requests, strict=True))


def is_original(message: str, original: str) -> bool:
    """True if a message is sent as it was, or lacks only results whose calls were left out.

    Some frameworks put the results of parallel calls into one message.
    """
    if message == original:
        return True
    sent, whole = json.loads(message), json.loads(original)
    if not (isinstance(sent.get("content"), list) and isinstance(whole.get("content"), list)):
        return False
    rest = [block for block in whole["content"] if block in sent["content"] or block.get("type") != "tool_result"]
    return bool(rest) and sent == {**whole, "content": rest}


def without_messages(request: Received) -> dict[str, Any]:
    return {key: value for key, value in request.body.items() if key not in ("messages", "input")}


def moved(requests: list[Received]) -> int:
    """How many requests do not begin, byte for byte, with the history of the request before."""
    return len(moves(requests))


def loaded(*modules: str) -> set[str]:
    """The packages from outside the standard library that these modules bring in, in a process of their own."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names
