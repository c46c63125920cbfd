"""Whole sessions in several processes on one store, and sessions that are killed: same decisions, nothing lost."""

import json
import multiprocessing
import os
import random
import signal
import time
import traceback
from contextlib import closing

import pytest

from focusctx import Focus, Prompt
from focusctx.invariants import violations
from focusctx.session.session import Session
from helpers.histories import Messages, step

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]

STEPS = 50
FORKING = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


def session_on(url: str, tenant: str, seed: int) -> Session:
    """A session whose draft cites other spans in every process."""
    chance = random.Random(seed)

    async def plan(prompt: Prompt) -> str:
        cited = ", ".join(span.label for span in prompt.history.spans if chance.random() < 0.2)
        return f"Step: go on | Depends on: [{cited}]"

    return Focus(plan, budget=200, tokens=len, rollouts=1).session(store=url, tenant=tenant, ahead=1)


def conversation(number: int, steps: int) -> Messages:
    start: Messages = [{"role": "user", "content": f"Task {number}."}]
    return start + [message for index in range(1, steps + 1) for message in step(index, f"{number}: result {index}")]


def run(url: str, tenant: str, seed: int, conversations: int, barrier, answers) -> None:
    """One process: every conversation, step by step, at the same time as the others; then how all of them ended."""
    try:
        with closing(session_on(url, tenant, seed)) as session:
            for number in range(conversations):
                barrier.wait(120)
                messages = conversation(number, 0)
                for index in range(1, STEPS + 1):
                    messages += step(index, f"{number}: result {index}")
                    view = session.view(messages)
                    assert violations(view, "chat_completions") == []
                    assert view[-1] is messages[-1]
            barrier.wait(120)
        with closing(session_on(url, tenant, seed)) as session:
            answers.put([json.dumps(session.view(conversation(number, STEPS))) for number in range(conversations)])
    except BaseException:
        barrier.abort()
        answers.put(traceback.format_exc())


@pytest.mark.parametrize("processes", [2])
def test_processes_on_one_conversation_decide_the_same(shared_url, request, processes):
    conversations = 10_000 // STEPS // processes
    tenant = request.node.name
    barrier, answers = FORKING.Barrier(processes), FORKING.Queue()
    workers = [
        FORKING.Process(target=run, args=(shared_url, tenant, seed, conversations, barrier, answers))
        for seed in range(processes)
    ]
    for worker in workers:
        worker.start()
    ended = [answers.get(timeout=400) for _ in workers]
    for worker in workers:
        worker.join(30)
    assert all(isinstance(each, list) for each in ended), ended
    assert all(each == ended[0] for each in ended)
    with closing(session_on(shared_url, tenant, 99)) as session:
        assert sum(everything_dropped_is_there(session, number, STEPS) for number in range(conversations)) > 1000


def everything_dropped_is_there(session: Session, number: int, steps: int) -> int:
    """How many steps the view lacks; each of them can be recalled word for word."""
    messages = conversation(number, steps)
    view = session.view(messages)
    shown = {message["tool_call_id"] for message in view if message["role"] == "tool"}
    missing = [index for index in range(1, steps + 1) if f"call_{index}" not in shown]
    for index in missing:
        (recalled,) = view.conversation.recall(f"s_{index}")
        assert list(recalled.messages) == messages[2 * index - 1 : 2 * index + 1]
    return len(missing)


def test_a_killed_process_loses_nothing(shared_url, request):
    tenant = request.node.name
    chance = random.Random(5)
    lost_sight_of = 0
    for life in range(200):
        worker = FORKING.Process(target=live, args=(shared_url, tenant, life))
        worker.start()
        time.sleep(chance.uniform(0.02, 0.12))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(10)
        with closing(session_on(shared_url, tenant, 1000 + life)) as session:
            lost_sight_of += everything_dropped_is_there(session, life // 4, STEPS)
    assert lost_sight_of > 1000


def live(url: str, tenant: str, life: int) -> None:
    """Go on with a conversation that earlier lives began, until killed."""
    with closing(session_on(url, tenant, life)) as session:
        for index in range(1, STEPS + 1):
            session.view(conversation(life // 4, index))
        time.sleep(10)
