"""The transformers draft with tiny random models, made here: what they write is noise, but exact noise."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import pytest

from focusctx.drafts import TransformersDraft
from focusctx.drafts import transformers as module
from focusctx.drafts.local import model
from focusctx.errors import ConfigError, DraftError, DraftRefused, MissingExtraError
from focusctx.types import History, Prompt
from tiny_models import NO_SYSTEM, Watched, save

torch = pytest.importorskip("torch", reason="needs the extra `transformers`")
pytest.importorskip("transformers", reason="needs the extra `transformers`")


@pytest.fixture
def folder(tmp_path):
    return partial(save, tmp_path / "model")


@pytest.fixture
def prompt():
    return Prompt("You plan.", "Plan the rest.", History("goal", ()), max_tokens=24)


@pytest.mark.parametrize("kind", ["full", "sliding"])
async def test_the_prompt_is_read_once_and_the_batch_equals_generate(folder, prompt, collect, monkeypatch, kind):
    monkeypatch.setattr(model, "_CHUNK", {"cpu": 20})
    watched = Watched(folder(kind))
    replies, error = await collect(watched.draft, replace(prompt, temperature=0.0), 3)
    assert error is None
    text = "<system>You plan.<user>Plan the rest.<assistant>"
    size = len(text)
    assert watched.shapes == [(1, 20), (1, 20), (1, size - 40)] + [(3, 1)] * 23

    tokens = watched.tokenizer(text, return_tensors="pt")
    written = watched.model.generate(**tokens, do_sample=False, max_new_tokens=24, pad_token_id=0)[0, size:]
    expected = watched.tokenizer.decode(written, skip_special_tokens=True)
    assert [reply.text for reply in replies] == [expected] * 3
    assert len(set(written.tolist())) > 3, "a model that repeats itself proves nothing"


async def test_each_sketch_is_the_one_its_seed_gives_alone(folder, prompt, collect):
    watched = Watched(folder(end=list(range(0, 257, 10))))
    together, _ = await collect(watched.draft, prompt, 6)
    alone = [(await collect(watched.draft, replace(prompt, seed=prompt.seed + k), 1))[0][0] for k in range(6)]
    assert sorted(reply.text for reply in together) == sorted(reply.text for reply in alone)
    assert len({reply.text for reply in alone}) == 6
    lengths = [reply.usage.output_tokens for reply in together]
    assert lengths == sorted(lengths), "each is handed out when it ends"
    assert len(set(lengths)) > 1
    rows = [batch for batch, length in watched.shapes if length == 1][: max(lengths) - 1]
    assert rows == [sum(length > past for length in lengths) for past in range(1, max(lengths))]


async def test_the_random_numbers_of_the_program_stay_as_they_are(folder, prompt, collect):
    watched = Watched(folder())
    await collect(watched.draft, prompt, 1)  # loaded: initialising a model draws numbers, as it always does
    before = torch.get_rng_state()
    first, _ = await collect(watched.draft, prompt, 2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again, _ = await collect(watched.draft, prompt, 2)
    assert first == again


async def test_usage_and_truncation(folder, prompt, collect):
    draft = TransformersDraft(folder(end=list(range(0, 257, 10))), device="cpu", min_p=0)
    replies, _ = await collect(draft, replace(prompt, max_tokens=6), 6)
    assert [reply.usage.requests for reply in replies] == [1, 0, 0, 0, 0, 0]
    assert [reply.usage.input_tokens for reply in replies] == [48, 0, 0, 0, 0, 0]
    assert {reply.truncated for reply in replies} == {True, False}
    assert all(reply.usage.output_tokens == 6 for reply in replies if reply.truncated)


@pytest.mark.parametrize(
    ("template", "size"),
    [(None, len("You plan.\n\nPlan the rest.")), (NO_SYSTEM, len("<user>You plan.\n\nPlan the rest.<assistant>"))],
)
async def test_without_a_template_or_a_system_role(folder, prompt, collect, template, size):
    replies, error = await collect(TransformersDraft(folder(template=template), device="cpu"), prompt, 1)
    assert error is None
    assert replies[0].usage.input_tokens == size


async def test_a_prompt_longer_than_the_context_is_refused(folder, prompt, collect):
    watched = Watched(folder())
    replies, error = await collect(watched.draft, replace(prompt, user="x" * 210), 3)
    assert (replies, type(error)) == ([], DraftRefused)
    assert "244 tokens" in str(error)
    assert "context is 256" in str(error)
    assert watched.shapes == []


async def test_closing_early_stops_the_work_and_the_loop_runs_on_meanwhile(folder, prompt, collect, monkeypatch):
    monkeypatch.setattr(model, "_CHUNK", {"cpu": 1})
    watched = Watched(folder())
    await collect(watched.draft, prompt, 1)
    watched.model.register_forward_hook(lambda *_: time.sleep(0.02))
    watched.shapes.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), aclosing(watched.draft.sample(prompt, 3)) as replies:
            await anext(replies)
    done = len(watched.shapes)
    assert 1 < done < 30, "stopped within the prompt"
    await asyncio.sleep(0.2)
    assert len(watched.shapes) <= done + 1


async def test_who_waits_for_room_can_stop_waiting(folder, prompt, collect):
    watched = Watched(folder(), batch_tokens=1)
    slow = watched.model.register_forward_hook(lambda *_: time.sleep(0.02))
    first = asyncio.create_task(collect(watched.draft, prompt, 1))
    await asyncio.sleep(0.01)  # it is being read
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), aclosing(watched.draft.sample(prompt, 5)) as replies:
            await anext(replies)
    assert await first == await collect(watched.draft, prompt, 1)
    slow.remove()
    assert {batch for batch, _ in watched.shapes} == {1}, "what nobody waits for is not begun"


async def test_a_draft_that_is_dropped_takes_its_thread_with_it(folder, prompt, collect):
    draft = TransformersDraft(folder(), device="cpu")
    await collect(draft, prompt, 1)
    thread = draft._engine.thread
    assert thread.is_alive()
    del draft
    gc.collect()
    thread.join(timeout=5)
    assert not thread.is_alive()


def test_threads_and_loops_share_one_model(folder, prompt, collect, monkeypatch):
    draft = TransformersDraft(folder(), device="cpu")
    loads = []
    load = draft._engine.load
    monkeypatch.setattr(draft._engine, "load", lambda: loads.append(1) or load())
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(asyncio.run(collect(draft, prompt, 2)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert [error for _, error in answers] == [None] * 3
    assert answers[0] == answers[1] == answers[2]


async def test_what_cannot_be_loaded_is_refused(tmp_path, prompt, collect):
    replies, error = await collect(TransformersDraft(tmp_path), prompt, 1)
    assert (replies, type(error)) == ([], DraftRefused)
    assert "cannot be loaded" in str(error)


async def test_a_model_that_breaks_is_a_failed_draft(folder, prompt, collect):
    watched = Watched(folder())
    await collect(watched.draft, prompt, 1)

    def fail(*_):
        raise RuntimeError("out of memory\nand many more lines")

    handle = watched.model.register_forward_hook(fail)
    replies, error = await collect(watched.draft, prompt, 1)
    assert (replies, type(error)) == ([], DraftError)
    assert str(error).endswith("failed: RuntimeError: out of memory")
    handle.remove()
    replies, error = await collect(watched.draft, prompt, 1)
    assert (len(replies), error) == (1, None)


def test_a_program_may_end_in_the_middle_of_a_sketch(folder):
    program = f"""
import asyncio
from focusctx.drafts import TransformersDraft
from focusctx.drafts import transformers as module
from focusctx.types import History, Prompt
draft = TransformersDraft({str(folder())!r}, device="cpu")
async def leave():
    replies = draft.sample(Prompt("", "", History("", ()), max_tokens=200), 3)
    waiting = asyncio.ensure_future(anext(replies))
    while draft._engine.writer is None:
        await asyncio.sleep(0.01)
    print("leaving", flush=True)
    raise SystemExit(0)
asyncio.run(leave())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr


def test_what_is_wrong_is_said_at_once(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no such GGUF file"):
        TransformersDraft("~/nowhere.gguf")
    with pytest.raises(ConfigError, match="no such model folder"):
        TransformersDraft(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="leave out gguf_file"):
        TransformersDraft("model.gguf", gguf_file="other.gguf")
    with pytest.raises(ConfigError, match="min_p"):
        TransformersDraft("org/model", min_p=2)
    assert TransformersDraft("org/model", gguf_file="small.gguf").name == "transformers:org/model"
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"focusctx\[transformers\]"):
        TransformersDraft("org/model")
