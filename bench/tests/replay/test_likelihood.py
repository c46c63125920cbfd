"""Losses of plans without a span, from a model that finds a word likely when its prompt holds it."""

import re

import pytest

from bench_helpers.benchmark_script import load_script
from focusctx import FocusConfig
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Reply, Span
from focusctx_bench.replay.likelihood import Scored, without_span

SCRIPT = load_script("likelihood_threshold.py")
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
        self.replies = [Reply(plan, truncated=truncated) for plan in plans]
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


async def test_a_step_loses_what_a_span_alone_gave_it(prompt):
    model = Copier("1. Sign in with tok_51fa9c\n- Step 2: attach inv_8841.pdf and tok_51fa9c\nCelebrate a little")
    plans = await SCRIPT.write_plans(model, prompt, 1)
    assert [step.text for step in plans.steps] == [
        "Sign in with tok_51fa9c",
        "attach inv_8841.pdf and tok_51fa9c",
        "Celebrate a little",
    ]
    assert "Depends on" not in model.prompts[0].system, "no citations are asked for"
    lost = await SCRIPT.losses(model, plans)
    assert list(lost) == [5, 4, 3, 2, 1], "the newest is never left out"
    # 4.9 nats, over the words of the step with its bullet
    assert lost[1] == pytest.approx([4.9 / 5, 4.9 / 7, 0])
    assert lost[3] == pytest.approx([0, 4.9 / 7, 0])
    assert lost[2] == lost[4] == lost[5] == [0, 0, 0]


async def test_each_plan_has_its_own_steps_and_losses(prompt):
    model = Copier("use tok_51fa9c", "look at the weather is", "")
    plans = await SCRIPT.write_plans(model, prompt, 3)
    assert [(step.plan, step.text) for step in plans.steps] == [(0, "use tok_51fa9c"), (1, "look at the weather is")]
    lost = await SCRIPT.losses(model, plans)
    assert [lost[1][0] > 0, lost[1][1] > 0, lost[2][0] > 0, lost[2][1] > 0] == [True, False, False, True]


async def test_a_plan_that_was_cut_loses_its_last_line(prompt):
    plans = await SCRIPT.write_plans(Copier("use tok_51fa9c\nattach inv_8841", truncated=True), prompt, 1)
    assert plans.texts == ["use tok_51fa9c"]


def test_lists_that_nobody_asked_for_are_taken_off():
    text = "Step: use it | Depends on: [s_9]\nrest depends on: [s_8] things\nRescued Spans: [s_7]\n\n"
    assert [step.text for step in SCRIPT.read_steps(0, text)] == ["use it", "rest  [s_8] things", "[s_7]"]
    assert [text[step.start : step.end] for step in SCRIPT.read_steps(0, text)] == text.strip().splitlines()


def test_leaving_out_a_span_leaves_every_other_byte(prompt):
    lines = prompt.user.splitlines(keepends=True)
    for index in OBSERVATIONS:
        left = without_span(prompt, f"s_{index}")
        assert left.user == "".join(line for line in lines if not line.startswith(f"[s_{index}] "))
        assert (left.system, left.history) == (prompt.system, prompt.history)
    with pytest.raises(ValueError, match="no line of s_7"):
        without_span(prompt, "s_7")
