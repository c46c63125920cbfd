"""Citations by likelihood, with a model that finds a word likely when its prompt holds it."""

import re

import pytest

from focusctx import Focus, FocusConfig
from focusctx.drafts import LikelihoodDraft
from focusctx.drafts.likelihood import Scored, read_steps, without_span
from focusctx.errors import ConfigError
from focusctx.pipeline.cite import read_sketch
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Reply, Span, Usage

OBSERVATIONS = {
    1: "access_token tok_51fa9c",
    2: "the weather is fine",
    3: "invoice inv_8841.pdf",
    4: "found maya fjordmail",
    5: "address maya fjordmail",
    6: "nothing else to see",
}


class Copier:
    """Writes the plans it is given. A word that stands in the prompt has a chance of e^-0.1, any other of e^-5."""

    name = "copier"

    def __init__(self, *plans, truncated=False):
        self.replies = [Reply(plan, Usage(output_tokens=7), truncated) for plan in plans]
        self.prompts = []

    async def sample(self, prompt, n):
        self.prompts.append(prompt)
        for reply in self.replies[:n]:
            yield reply

    async def score(self, prompts, continuations):
        return [[self.one(prompt.user, text) for text in continuations] for prompt in prompts]

    @staticmethod
    def one(user, text):
        words = list(re.finditer(r"\S+", text))
        known = set(user.split())
        return Scored(
            tuple(word.start() for word in words), tuple(-0.1 if word[0] in known else -5.0 for word in words)
        )


@pytest.fixture
def prompt():
    spans = tuple(Span(index, f"thought {index}", "act()", text) for index, text in OBSERVATIONS.items())
    return build_prompt(History("Send Maya the invoice.", spans), FocusConfig())


async def written(model, prompt, n=1, **options):
    return [reply async for reply in LikelihoodDraft(model, **options).sample(prompt, n)]


async def test_a_step_cites_the_spans_that_alone_gave_its_words(prompt):
    model = Copier("1. Sign in with tok_51fa9c\n- Step 2: attach inv_8841.pdf and tok_51fa9c\nCelebrate a little")
    [reply] = await written(model, prompt)
    assert reply.text.splitlines() == [
        "Step: Sign in with tok_51fa9c | Depends on: [s_1]",
        "Step: attach inv_8841.pdf and tok_51fa9c | Depends on: [s_1, s_3]",
        "Step: Celebrate a little | Depends on: []",
    ]
    assert reply.usage == Usage(output_tokens=7)
    assert "Depends on" not in model.prompts[0].system, "no citations are asked for"
    sketch = read_sketch(reply.text, 6)
    assert (sketch.cited, sketch.problem) == ({1, 3}, None)


async def test_of_spans_that_say_the_same_one_is_cited(prompt):
    [reply] = await written(Copier("Write to maya at fjordmail"), prompt)
    assert reply.text in {f"Step: Write to maya at fjordmail | Depends on: [s_{index}]" for index in (4, 5)}


async def test_each_plan_has_its_own_citations(prompt):
    replies = await written(Copier("use tok_51fa9c", "look at the weather is", ""), prompt, 3)
    assert [read_sketch(reply.text, 6).cited for reply in replies] == [{1}, {2}, set()]
    assert read_sketch(replies[2].text, 6).problem is not None, "an empty plan does not vote"


async def test_a_plan_that_was_cut_loses_its_last_line(prompt):
    [reply] = await written(Copier("use tok_51fa9c\nattach inv_8841", truncated=True), prompt)
    assert reply.text == "Step: use tok_51fa9c | Depends on: [s_1]"
    assert not reply.truncated


async def test_the_threshold_is_in_nats_per_token(prompt):
    model = Copier("one two three four tok_51fa9c")  # 4.9 nats over 5 tokens
    assert "[s_1]" in (await written(model, prompt, threshold=0.97))[0].text
    assert "[]" in (await written(model, prompt, threshold=0.99))[0].text
    with pytest.raises(ConfigError, match="threshold"):
        LikelihoodDraft(model, threshold=0)


def test_lists_that_nobody_asked_for_are_taken_off():
    text = "Step: use it | Depends on: [s_9]\nrest depends on: [s_8] things\nRescued Spans: [s_7]\n\n"
    assert [step.text for step in read_steps(0, text)] == ["use it", "rest  [s_8] things", "[s_7]"]
    assert [text[step.start : step.end] for step in read_steps(0, text)] == text.strip().splitlines()


def test_leaving_out_a_span_leaves_every_other_byte(prompt):
    lines = prompt.user.splitlines(keepends=True)
    for index in OBSERVATIONS:
        left = without_span(prompt, f"s_{index}")
        assert left.user == "".join(line for line in lines if not line.startswith(f"[s_{index}] "))
        assert (left.system, left.history) == (prompt.system, prompt.history)
    assert without_span(prompt, "s_1", "s_6").user.count("[s_") == 4
    with pytest.raises(ValueError, match="no line of s_7"):
        without_span(prompt, "s_7")


def test_an_event_is_compressed_by_it():
    messages = [{"role": "user", "content": "Send Maya the invoice."}]
    for index, text in OBSERVATIONS.items():
        call = {"id": f"c{index}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{index}", "content": text})
    draft = LikelihoodDraft(Copier(*["Send inv_8841.pdf with tok_51fa9c"] * 3))
    result = Focus(draft, config=FocusConfig.paper(budget=1)).compress(messages)
    assert result.kept == (1, 3, 6)
