"""Likelihoods of a real model: FOCUSCTX_GGUF names its file (`scripts/models` fetches one)."""

import os

import pytest

from focusctx import FocusConfig
from focusctx.drafts import TransformersDraft
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Span
from focusctx_bench.replay.likelihood import TransformersScorer, without_span

GGUF = os.environ.get("FOCUSCTX_GGUF", "")

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not GGUF, reason="set FOCUSCTX_GGUF to a GGUF file; scripts/models fetches one"),
]

TASK = "Send Maya the invoice for order 8841 by e-mail. Her current address is in the contacts, not in the order."
STEPS = [
    ("I sign in first.", "login(user='sam')", "access_token: tok_51fa9c"),
    ("Let me see what the apps offer.", "list_apps()", "mail, files, contacts, orders, weather, music"),
    ("The weather is of no use, but I check it.", "weather(city='Oslo')", "12 degrees, light rain until noon"),
    ("I look up the order.", "get_order(id=8841)", "order 8841, paid, invoice file: inv_8841_final.pdf"),
    ("I look for Maya's address.", "find_contact(name='Maya')", "Maya Lind, maya.lind@fjordmail.example"),
    ("I try to send without a token.", "send_mail(to='?')", "error 401: access_token is required"),
]


async def test_likelihood_finds_the_steps_that_gave_the_values():
    pytest.importorskip("transformers", reason="needs the extra `transformers`")
    spans = tuple(Span(index, *step) for index, step in enumerate(STEPS, 1))
    prompt = build_prompt(History(TASK, spans), FocusConfig())
    text = "Send inv_8841_final.pdf to maya.lind@fjordmail.example"
    prompts = [prompt, *(without_span(prompt, span.label) for span in spans)]
    full, *without = await TransformersScorer(TransformersDraft(GGUF)).score(prompts, [text])
    losses = {span.index: full[0].total - scored[0].total for span, scored in zip(spans, without, strict=True)}
    assert set(sorted(losses, key=losses.__getitem__)[-2:]) == {4, 5}, losses
