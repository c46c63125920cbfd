import asyncio
import contextvars
import functools
import threading
import time

import pytest

from focusctx.drafts import FunctionDraft
from focusctx.errors import DraftError, DraftRefused
from focusctx.types import Usage


async def test_a_sync_function_is_called_once_per_reply_with_its_own_seed(prompt, collect):
    draft = FunctionDraft(lambda asked: f"{asked.user} {asked.seed}")
    replies, error = await collect(draft, prompt, 3)
    assert error is None
    assert sorted(reply.text for reply in replies) == [f"Plan the rest. {seed}" for seed in (42, 43, 44)]
    assert replies[0].usage == Usage(requests=1, cost=None)


async def test_sync_calls_run_at_the_same_time(prompt, collect):
    together = threading.Barrier(3, timeout=5)

    def meet(asked):
        together.wait()
        return "met"

    replies, error = await collect(FunctionDraft(meet), prompt, 3)
    assert (len(replies), error) == (3, None)


async def test_async_functions_of_every_kind(prompt, collect):
    async def plan(asked):
        await asyncio.sleep(0)
        return f"plan {asked.seed}"

    class Planner:
        async def __call__(self, asked):
            return await plan(asked)

    def hand_on(asked):
        return plan(asked)

    for fn in (plan, Planner(), functools.partial(plan), hand_on):
        replies, error = await collect(FunctionDraft(fn), prompt, 2)
        assert error is None
        assert {reply.text for reply in replies} == {"plan 42", "plan 43"}


async def test_the_others_still_answer_when_one_raises(prompt, collect):
    def moody(asked):
        if asked.seed == 43:
            raise KeyError("no plan")
        return "plan"

    replies, error = await collect(FunctionDraft(moody, name="moody"), prompt, 3)
    assert len(replies) == 2
    assert isinstance(error, DraftError)
    assert str(error) == "draft moody raised KeyError: 'no plan'"
    assert isinstance(error.__cause__, KeyError)


async def test_exceptions_that_futures_and_coroutines_do_not_carry(prompt, collect):
    def stop(asked):
        raise StopIteration

    def leave(asked):
        raise SystemExit(3)

    async def fail(asked):
        raise ValueError("no")

    for fn, kind in ((stop, StopIteration), (leave, SystemExit), (fail, ValueError)):
        replies, error = await collect(FunctionDraft(fn), prompt, 2)
        assert replies == []
        assert isinstance(error, DraftError)
        assert isinstance(error.__cause__, kind)


async def test_a_draft_error_of_the_function_is_kept(prompt, collect):
    def refuse(asked):
        raise DraftRefused("no credit")

    assert isinstance((await collect(FunctionDraft(refuse), prompt, 1))[1], DraftRefused)


async def test_a_result_that_is_no_text_is_named(prompt, collect):
    _, error = await collect(FunctionDraft(lambda asked: {"plan": 1}), prompt, 1)
    assert isinstance(error, DraftError)
    assert "returned dict, not str" in str(error)


async def test_context_variables_reach_the_thread(prompt, collect):
    trace = contextvars.ContextVar("trace", default="none")
    trace.set("here")
    replies, _ = await collect(FunctionDraft(lambda asked: trace.get()), prompt, 1)
    assert replies[0].text == "here"


def test_a_hung_function_holds_up_nobody(prompt):
    released = threading.Event()

    def hang(asked):
        released.wait(20)
        return "late"

    async def event():
        sample = FunctionDraft(hang).sample(prompt, 2)
        try:
            await asyncio.wait_for(anext(sample), 0.05)
        except TimeoutError:
            await sample.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    others = set(threading.enumerate())
    begun = time.perf_counter()
    left = asyncio.run(event())  # would join the loop's own executor
    assert time.perf_counter() - begun < 5
    assert not left
    hung = [thread for thread in set(threading.enumerate()) - others if thread.name == "focusctx-draft"]
    assert len(hung) == 2
    assert all(thread.daemon for thread in hung)  # nor do they keep the program from ending
    released.set()  # the threads now answer a loop that is closed: nothing may come of it
    for thread in hung:
        thread.join(5)


async def test_an_answer_after_the_deadline_is_dropped_in_silence(prompt):
    released = threading.Event()
    troubles = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, trouble: troubles.append(trouble))
    sample = FunctionDraft(lambda asked: str(released.wait(20))).sample(prompt, 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(sample), 0.05)
    released.set()
    await asyncio.sleep(0.1)
    assert troubles == []


async def test_stopping_early_cancels_the_async_calls(prompt):
    cancelled = []

    async def plan(asked):
        if asked.seed == 42:
            return "first"
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(asked.seed)
            raise

    sample = FunctionDraft(plan).sample(prompt, 3)
    assert (await anext(sample)).text == "first"
    await sample.aclose()
    assert sorted(cancelled) == [43, 44]
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_names():
    def planner(asked):
        return ""

    assert FunctionDraft(planner).name == "function:planner"
    assert FunctionDraft(functools.partial(planner)).name == "function:partial"
    assert FunctionDraft(planner, name="mine").name == "mine"
