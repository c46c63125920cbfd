"""DSPy: the ReAct agent, called and called async. Its history is one field of one message, so the conformance suite,
which looks at messages, cannot be run; what it asks for is asked of the trajectory here."""

import ast
import asyncio
import json
import os
import re
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from focusctx.integrations.plug import Plug, Source
from focusctx.session.store import Totals
from focusctx.session.stores import store_from
from helpers import task
from helpers.prefixes import is_shortened
from helpers.provider import Provider, Received, Say
from integrations.conformance import ROOT, Broken, compressing, failing, loaded, silent, together
from integrations.functions import FUNCTIONS
from integrations.page import run_page

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
dspy = pytest.importorskip("dspy", reason="scripts/test-integrations dspy")

from focusctx.integrations.dspy import FocusedReAct


def fields(**values: Any) -> Say:
    """An answer as DSPy's adapter reads it."""
    return Say("\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in {**values, "completed": ""}.items()))


def model(received: Received) -> Say:
    """The task's model, in DSPy's words; the last request asks for the outputs."""
    text = received.raw.decode()
    if "next_tool_name" not in received.messages[0]["content"]:
        return fields(reasoning="All is read.", report=task.FINAL)
    done = max([0, *map(int, re.findall(rf"Page (\d+) of {task.STEPS}\b", text))])
    if done == task.STEPS:
        return fields(next_thought="Done.", next_tool_name="finish", next_tool_args="{}")
    arguments = json.dumps({"page": done + 1})
    return fields(next_thought=f"Next is page {done + 1}.", next_tool_name="read_page", next_tool_args=arguments)


def done(mode: str, focus: Source | None) -> tuple[Any, list[Received]]:
    made = dspy.ReAct if focus is None else partial(FocusedReAct, focus=focus)
    agent = made("task -> report", tools=FUNCTIONS, max_iters=50)
    with Provider(model) as provider:
        lm = dspy.LM("openai/gpt-4.1", api_base=f"{provider.url}/v1", api_key="none", cache=False, num_retries=0)
        with dspy.context(lm=lm):
            answer = asyncio.run(agent.acall(task=task.TASK)) if mode == "async" else agent(task=task.TASK)
        return answer, provider.received


@pytest.fixture(scope="module", params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plain(mode: str) -> tuple[Any, list[Received]]:
    return done(mode, None)


def shown(request: Received, field: str) -> list[str]:
    """The steps of the trajectory that have such a field in the prompt."""
    return re.findall(rf"\[\[ ## {field}_(\d+) ## \]\]", request.messages[-1]["content"])


def trajectory(request: Received) -> str:
    """The trajectory as the prompt has it."""
    found = re.search(r"## trajectory ## \]\](.*?)\s*\nRespond with", request.messages[-1]["content"], re.DOTALL)
    assert found is not None
    return found[1].strip()


def test_the_same_answer_from_smaller_prompts(mode: str, plain: tuple[Any, list[Received]]) -> None:
    session = compressing().session()
    answer, requests = done(mode, session)
    whole, larger = plain
    assert answer.report == whole.report == task.FINAL
    assert answer.trajectory == whole.trajectory
    assert len(requests[-1].raw) < 0.6 * len(larger[-1].raw)
    assert all(shown(request, "thought") == shown(request, "observation") for request in requests)


def test_the_trajectory_changes_at_events_only(mode: str) -> None:
    session = compressing().session()
    _, requests = done(mode, session)
    written = [trajectory(request) for request in requests]
    changed = sum(not after.startswith(before) for before, after in pairwise(written))
    assert changed == sum(event.happened for event in session.events) > 1


FAULTS: list[Source] = [failing(), silent(), lambda caller: Broken(compressing(), tenant=caller.tenant)]


@pytest.mark.parametrize("focus", FAULTS, ids=["draft", "silent draft", "bug"])
def test_what_fails_leaves_the_run_as_it_was(mode: str, plain: tuple[Any, list[Received]], focus: Source) -> None:
    answer, requests = done(mode, focus)
    whole, others = plain
    assert answer.trajectory == whole.trajectory
    assert [request.body for request in requests] == [request.body for request in others]


@pytest.fixture
def one_parser_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy parses its signatures in every call, and Python 3.11 mixes up two threads that parse at the same time: it
    raises SystemError, "AST constructor recursion depth mismatch" (python/cpython#106905)."""
    lock, parse = threading.Lock(), ast.parse

    def parse_alone(*given: Any, **named: Any) -> ast.AST:
        with lock:
            return parse(*given, **named)

    monkeypatch.setattr(ast, "parse", parse_alone)


@pytest.mark.usefixtures("one_parser_at_a_time")
def test_four_threads_with_loops_of_their_own_and_the_same_words(mode: str, plain: tuple[Any, list[Received]]) -> None:
    """Each with a language model of its own, and one integration's sessions."""
    plug = Plug(compressing())
    whole, larger = plain
    for answer, requests in together(4, lambda: done(mode, plug)):
        assert answer.trajectory == whole.trajectory
        assert len(requests[-1].raw) < 0.6 * len(larger[-1].raw)


def test_two_tenants_with_the_same_words(tmp_path: Path) -> None:
    focus, store = compressing(), store_from(f"sqlite:///{tmp_path / 'focus.db'}")
    plug = Plug(lambda caller: focus.session(store, tenant=caller.tenant), lambda caller: tenant)
    sent = []
    for tenant in ("acme", "globex"):
        assert not store.recent(tenant, 10)
        sent.append([request.body["messages"] for request in done("sync", plug)[1]])
    plug.close()
    assert store.totals("acme") == store.totals("globex") != Totals()
    assert sent[0] == sent[1]  # decided anew
    store.close()


def test_excerpts_and_the_note_about_missing_steps_arrive() -> None:
    focus = compressing()
    answer, requests = done("sync", focus.session(recall=True))
    assert answer.report == task.FINAL
    assert is_shortened(requests[-1].raw.decode())
    assert "[Left out to save space: " in requests[-1].raw.decode()


def test_importing_it_imports_this_framework_only() -> None:
    assert loaded("focusctx.integrations.dspy") - loaded("dspy") <= {"focusctx"}


def test_the_code_on_the_page_runs() -> None:
    requests = run_page(ROOT / "docs" / "integrations" / "dspy.md", 12, page_model)
    assert any(not after.startswith(before) for before, after in pairwise(map(trajectory, requests)))


def page_model(received: Received, calls: int) -> Say:
    if "next_tool_name" not in received.messages[0]["content"]:
        return fields(reasoning="All is read.", cause="Part 7.")
    done = max([0, *map(int, re.findall(r"Part (\d+):", received.raw.decode()))])
    name, arguments = ("finish", {}) if done == calls else ("read_part", {"number": done + 1})
    return fields(next_thought="On.", next_tool_name=name, next_tool_args=json.dumps(arguments))


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusedReAct("task -> report", tools=FUNCTIONS, focus=plug).focusctx is plug
