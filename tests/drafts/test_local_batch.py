"""Events that ask at the same time share a batch, and each gets what it would have got alone."""

import asyncio
import random
import time
from contextlib import aclosing

import pytest

from focusctx.types import History, Prompt
from tiny_models import Watched, save

torch = pytest.importorskip("torch", reason="needs the extra `transformers`")
pytest.importorskip("transformers", reason="needs the extra `transformers`")

ENDS = list(range(0, 257, 12))
"""Many tokens that end a reply, so that rows leave the batch at different times."""


def requests(count):
    chance = random.Random(5)
    for number in range(count):
        words = "".join(chance.choices("abcdefgh ", k=chance.choice([1, 10, 63, 64, 65, 120])))
        prompt = Prompt(f"({number})", words, History("goal", ()), 0.7, chance.choice([1, 5, 70, 90]), 100 * number)
        yield prompt, chance.randint(1, 4)


async def texts(draft, prompt, n):
    return sorted([(reply.text, reply.truncated) async for reply in draft.sample(prompt, n)])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {kind: save(base / kind, kind, end=ENDS) for kind in ("full", "sliding")}


@pytest.fixture(scope="module")
def alone(models):
    """What each request gets when nobody else asks."""

    async def ask(kind):
        watched = Watched(models[kind])
        return [await texts(watched.draft, prompt, n) for prompt, n in requests(14)]

    return {kind: asyncio.run(ask(kind)) for kind in models}


@pytest.mark.parametrize("batch_tokens", [None, 700, 1])
async def test_together_each_gets_what_it_gets_alone(models, alone, batch_tokens):
    watched = Watched(models["full"], batch_tokens=batch_tokens)
    together = await asyncio.gather(*(texts(watched.draft, prompt, n) for prompt, n in requests(14)))
    assert together == alone["full"]
    widest = max(rows for rows, length in watched.shapes if length == 1)
    most = sum(n for prompt, n in requests(14) if prompt.max_tokens > 1)
    if batch_tokens is None:
        assert most * 0.7 < widest <= most, "all are written side by side, but for those who end at once"
    elif batch_tokens == 1:
        assert widest <= 4, "one prompt at a time"
    else:
        assert 4 < widest < most * 0.7


async def test_those_who_come_later_join(models, alone):
    watched = Watched(models["full"])
    chance = random.Random(1)

    async def later(prompt, n):
        await asyncio.sleep(chance.random() * 0.2)
        return await texts(watched.draft, prompt, n)

    watched.model.register_forward_hook(lambda *_: time.sleep(0.002))
    assert await asyncio.gather(*(later(*request) for request in requests(14))) == alone["full"]


async def test_those_who_leave_change_nothing_for_the_others(models, alone):
    watched = Watched(models["full"])
    asked = list(requests(14))

    async def leave(prompt, n):
        async with aclosing(watched.draft.sample(prompt, n)) as replies:
            async for _ in replies:
                return

    waiting = [
        leave(*request) if place % 3 == 0 else texts(watched.draft, *request) for place, request in enumerate(asked)
    ]
    found = await asyncio.gather(*waiting)
    assert [got for got in found if got is not None] == [got for place, got in enumerate(alone["full"]) if place % 3]


async def test_a_model_with_windows_takes_one_prompt_at_a_time(models, alone):
    watched = Watched(models["sliding"])
    together = await asyncio.gather(*(texts(watched.draft, prompt, n) for prompt, n in requests(14)))
    assert together == alone["sliding"]
    assert max(rows for rows, _ in watched.shapes) <= 4


async def test_a_failure_in_the_batch_is_told_to_all_and_the_next_batch_works(models, alone):
    watched = Watched(models["full"])
    asked = [request for request in requests(14) if request[0].max_tokens > 5]

    def fail(_, args, named, out):
        if out.logits.shape[0] > 5:
            raise RuntimeError("out of memory")

    handle = watched.model.register_forward_hook(fail, with_kwargs=True)
    found = await asyncio.gather(*(texts(watched.draft, *request) for request in asked), return_exceptions=True)
    assert {str(error).rpartition(": ")[2] for error in found} == {"out of memory"}
    handle.remove()
    again = await asyncio.gather(*(texts(watched.draft, *request) for request in asked))
    assert again == [got for got, (prompt, _) in zip(alone["full"], requests(14), strict=True) if prompt.max_tokens > 5]
