"""The transformers draft with tiny random models, made here: what they write is noise, but exact noise."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import pytest

from focusctx.drafts import TransformersDraft
from focusctx.drafts import transformers as module
from focusctx.errors import ConfigError, DraftError, DraftRefused, MissingExtraError
from focusctx.types import History, Prompt
from helpers.tiny_models import NO_SYSTEM, Watched, save

torch = pytest.importorskip("torch", reason="needs the extra `transformers`")
pytest.importorskip("transformers", reason="needs the extra `transformers`")


@pytest.fixture
def folder(tmp_path):
    return partial(save, tmp_path / "model")


@pytest.fixture
def prompt():
    return Prompt("You plan.", "Plan the rest.", History("goal", ()), max_tokens=24)


@pytest.mark.parametrize("kind", ["full", "sliding"])
async def test_the_prompt_is_read_once_for_all_sketches(folder, prompt, collect, kind):
    watched = Watched(folder(kind, room=2048))
    prompt = replace(prompt, user="Plan the rest. " * 40, temperature=0.0)
    replies, error = await collect(watched.draft, prompt, 3)
    assert error is None
    text = f"<system>You plan.<user>{prompt.user}<assistant>"
    size = len(text)
    assert watched.shapes == [(1, 512), (1, size - 513)] + [(3, 1)] * replies[0].usage.output_tokens

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
    assert lengths == sorted(lengths), "in the order in which they end"
    assert len(set(lengths)) > 1


async def test_a_sketch_is_handed_out_as_soon_as_it_ends(folder, prompt):
    watched = Watched(folder(end=list(range(0, 257, 10))))
    passes = []
    watched.model.register_forward_hook(lambda *_: time.sleep(0.02))
    async for reply in watched.draft.sample(prompt, 6):
        passes.append((reply.usage.output_tokens, len(watched.shapes)))
    first, last = passes[0], passes[-1]
    assert first[0] < last[0]
    assert first[1] < last[1], "the others were still being written"
    assert len(watched.shapes) == 1 + last[0], "nothing is computed after the last one"


async def test_the_sampling_settings_of_the_model_do_not_count(folder, prompt, collect):
    path = folder()
    usual, _ = await collect(TransformersDraft(path, device="cpu"), prompt, 2)
    settings = json.loads((path / "generation_config.json").read_text())
    settings |= {"do_sample": True, "repetition_penalty": 5.0, "top_k": 1, "temperature": 0.1, "max_new_tokens": 3}
    (path / "generation_config.json").write_text(json.dumps(settings))
    assert await collect(TransformersDraft(path, device="cpu"), prompt, 2) == (usual, None)


async def test_draws_follow_the_chances(folder, prompt, collect):
    watched = Watched(folder())
    tokens = watched.tokenizer("<system>You plan.<user>Plan the rest.<assistant>", return_tensors="pt")
    with torch.inference_mode():
        scores = watched.model(**tokens).logits[0, -1]
    chances = (scores / prompt.temperature).softmax(-1)
    chances[chances < 0.05 * chances.max()] = 0
    chances /= chances.sum()
    replies, _ = await collect(watched.draft, replace(prompt, max_tokens=1), 2000)
    drawn = Counter(reply.text for reply in replies)
    expected = Counter()
    for token in chances.nonzero()[:, 0].tolist():
        expected[watched.tokenizer.decode([token], skip_special_tokens=True)] += float(chances[token])
    assert len(expected) > 1
    assert drawn.keys() <= expected.keys(), "what is too unlikely is never drawn"
    for text, chance in expected.items():
        assert drawn[text] / 2000 == pytest.approx(chance, abs=0.05)


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


@pytest.mark.parametrize("reading", [True, False])
async def test_closing_early_stops_the_work_and_the_loop_runs_on_meanwhile(folder, prompt, reading):
    watched = Watched(folder(end=None, room=8192))
    watched.model.register_forward_hook(lambda *_: time.sleep(0.05))
    prompt = replace(prompt, user="x" * 7000) if reading else replace(prompt, max_tokens=200)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), aclosing(watched.draft.sample(prompt, 3)) as replies:
            await anext(replies)
    done = len(watched.shapes)
    assert 1 < done < 12
    assert {rows for rows, _ in watched.shapes} == ({1} if reading else {1, 3})
    await asyncio.sleep(0.3)
    assert len(watched.shapes) <= done + 1


async def test_a_job_that_nobody_waits_for_is_not_begun(folder, prompt, collect):
    watched = Watched(folder())
    slow = watched.model.register_forward_hook(lambda *_: time.sleep(0.02))
    first = asyncio.create_task(collect(watched.draft, prompt, 1))
    await asyncio.sleep(0.01)  # it has begun
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), aclosing(watched.draft.sample(prompt, 5)) as replies:
            await anext(replies)
    assert await first == await collect(watched.draft, prompt, 1)
    slow.remove()
    assert {batch for batch, _ in watched.shapes} == {1}


async def test_events_at_the_same_time_get_what_each_gets_alone(folder, prompt, collect):
    draft = TransformersDraft(folder(end=list(range(0, 257, 10))), device="cpu")
    prompts = [replace(prompt, user=f"Plan number {number}.", seed=100 * number) for number in range(4)]
    alone = [await collect(draft, one, 2) for one in prompts]
    assert await asyncio.gather(*(collect(draft, one, 2) for one in prompts)) == alone
    assert len({reply.text for replies, _ in alone for reply in replies}) == 8


async def test_a_draft_that_is_dropped_takes_its_thread_with_it(folder, prompt, collect):
    draft = TransformersDraft(folder(), device="cpu")
    await collect(draft, prompt, 1)
    thread = draft.submit(lambda *_: threading.current_thread(), threading.Event()).result()
    assert thread.is_alive()
    del draft
    gc.collect()
    thread.join(timeout=5)
    assert not thread.is_alive()


def test_threads_and_loops_share_one_model(folder, prompt, collect, monkeypatch):
    draft = TransformersDraft(folder(), device="cpu")
    loads = []
    load = module.Source.load
    monkeypatch.setattr(module.Source, "load", lambda source: loads.append(1) or load(source))
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


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("asyncio.run(leave())", id="in the loop of the program"),
        pytest.param("runtime.Background(first()); wait(); raise SystemExit(0)", id="on a daemon thread"),
    ],
)
def test_a_program_may_end_in_the_middle_of_a_sketch(folder, work):
    program = f"""
import asyncio, time
from focusctx import runtime
from focusctx.drafts import TransformersDraft
from focusctx.types import History, Prompt
draft = TransformersDraft({str(folder(end=None, room=65536))!r}, device="cpu")
async def first():
    return await anext(draft.sample(Prompt("", "", History("", ()), max_tokens=60000), 3))
def wait():
    while draft._model is None:
        time.sleep(0.01)
    time.sleep(0.3)
    print("leaving", flush=True)
async def leave():
    waiting = asyncio.ensure_future(first())
    await asyncio.to_thread(wait)
    raise SystemExit(0)
{work}
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
