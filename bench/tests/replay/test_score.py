"""Likelihoods of given answers, held against the plain softmax over a whole pass."""

import asyncio

import pytest

from focusctx.errors import DraftRefused
from focusctx.types import History, Prompt
from focusctx_bench.replay.likelihood import TransformersScorer
from helpers.tiny_models import Watched, save

torch = pytest.importorskip("torch", reason="needs the extra `transformers`")
pytest.importorskip("transformers", reason="needs the extra `transformers`")

ANSWERS = ["Step: send the mail", "x", "", "Step: fjörd → done"]


@pytest.fixture(scope="module", params=["full", "sliding"])
def watched(request, tmp_path_factory):
    return Watched(save(tmp_path_factory.mktemp("model") / request.param, request.param))


def scorer(watched):
    return TransformersScorer(watched.draft)


def prompt(*spans):
    return Prompt(
        "You plan.", "".join(f"[s_{span}] what step {span} did\n" for span in spans), History("goal", ()), max_tokens=20
    )


def expected(watched, asked, answer):
    text = f"<system>{asked.system}<user>{asked.user}<assistant>"
    before, after = watched.tokenizer(text)["input_ids"], watched.tokenizer(answer)["input_ids"]
    with torch.inference_mode():
        logits = watched.model(input_ids=torch.tensor([before + after])).logits[0].log_softmax(-1)
    return [float(logits[len(before) + place - 1, token]) for place, token in enumerate(after)]


async def test_every_token_has_the_likelihood_of_a_whole_pass(watched):
    prompts = [prompt(1, 2, 3), prompt(1, 2), prompt(1, 3), prompt(2, 3), prompt(1, 2, 3)]
    found = await scorer(watched).score(prompts, ANSWERS)
    for asked, scores in zip(prompts, found, strict=True):
        for answer, scored in zip(ANSWERS, scores, strict=True):
            assert scored.logs == pytest.approx(expected(watched, asked, answer), abs=1e-4)
            assert scored.total == pytest.approx(sum(scored.logs))


async def test_tokens_say_where_they_begin(watched):
    [[scored]] = await scorer(watched).score([prompt(1)], ["Step: fjörd → done"])
    text = "Step: fjörd → done"
    assert scored.starts == tuple(place for place, letter in enumerate(text) for _ in letter.encode())
    assert len(scored.logs) == len(scored.starts)


async def test_what_prompts_share_is_read_once(tmp_path):
    watched = Watched(save(tmp_path / "model"))
    full, shorter, other = prompt(1, 2, 3), prompt(1, 2), prompt(2)
    await scorer(watched).score([full, shorter, other], ["yes"])
    size = len("<system>You plan.<user>[s_1] what step 1 did\n[s_2] what step 2 did\n")
    lengths = [length for _, length in watched.shapes]
    assert lengths[0] == size + len("[s_3] what step 3 did\n<assistant>") - 1
    assert lengths[1:3] == [3, len("<assistant>") - 1], "the answer, then what the second prompt has of its own"
    assert lengths[4] < size


async def test_scoring_and_writing_at_the_same_time(watched):
    asked = prompt(1, 2)

    async def write():
        return [reply.text async for reply in watched.draft.sample(asked, 3)]

    alone, scores = await write(), await scorer(watched).score([asked], ANSWERS)
    both = await asyncio.gather(write(), scorer(watched).score([asked], ANSWERS), write())
    assert both == [alone, scores, alone]


async def test_what_does_not_fit_is_refused(watched):
    with pytest.raises(DraftRefused, match="context is 256"):
        await scorer(watched).score([prompt(1)], ["x" * 250])


async def test_half_precision_stops_before_the_last_layer(tmp_path):
    watched = Watched(save(tmp_path / "model"), dtype="bfloat16")
    asked = prompt(1)
    [scored] = (await scorer(watched).score([asked], ["x"]))[0]
    head = watched.model.get_output_embeddings()
    inputs = []
    handle = head.register_forward_hook(lambda _, given, out: inputs.append((given[0], out.dtype)))
    await scorer(watched).score([asked], ["x"])
    handle.remove()
    hidden, kind = inputs[-1]
    with torch.inference_mode():
        exact = (hidden.float() @ head.weight.float().T)[0, -1].log_softmax(-1)
        assert kind == torch.float32
    assert scored.logs[0] == pytest.approx(float(exact[watched.tokenizer("x")["input_ids"][0]]), abs=1e-5)
