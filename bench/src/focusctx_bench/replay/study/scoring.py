"""The leave-one-out pass: for each event a vocabulary, a few plans, and how likely they are without each span.

The only part of the study that needs a model's probabilities. What it finds is added to a file, event by event, so
that a pass that was stopped goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from focusctx.config import FocusConfig
from focusctx.errors import BenchError
from focusctx.jobs.engines import InProcess
from focusctx.jobs.records import RecordFile
from focusctx.jobs.runner import Runner, Watch
from focusctx.jobs.tally import Meter, Tally
from focusctx.replay.methods import short_name
from focusctx.types import Prompt

from ...local_models.likelihood import ScoringDraft, without_span
from ..points import Point
from .elicit import one_line, plan_prompt, vocabulary, vocabulary_prompt
from .events import at_stake
from .likelihoods import Kind, Likelihoods, Text

_AT_ONCE = 8
"""Events in the making at a time: few enough to lose little when stopped."""
LEAST_ACTIONS = 2


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is asked at each event."""

    actions: int = 12
    lists: int = 3
    """Replies that list possible actions."""
    plans: int = 4
    samples: int = 0
    """Choices among the actions that are sampled with each history; the exact pass needs none."""


def score_points(
    model: ScoringDraft, points: Sequence[Point], file: RecordFile[Likelihoods], amounts: Amounts, watch: Watch
) -> Tally:
    """Score the points that the file does not have yet. One that cannot be scored does not stop the others."""
    done = file.latest()
    runner = Runner(
        InProcess(_AT_ONCE), partial(_score, model, amounts), lambda made: file.add(*made),
        part=lambda _: "likelihoods", is_done=lambda point: point.place in done, watch=watch,
    )  # fmt: skip
    return runner.run_all(points)


async def _score(model: ScoringDraft, amounts: Amounts, point: Point, _: Meter) -> list[Likelihoods]:
    window = FocusConfig().draft_window
    prompt = plan_prompt(point.history, window)
    plans, lists = await asyncio.gather(
        _replies(model, prompt, amounts.plans),
        _replies(model, vocabulary_prompt(point.history, window, amounts.actions), amounts.lists),
    )
    actions = vocabulary(lists, plans, amounts.actions)
    if len(actions) < LEAST_ACTIONS:
        raise BenchError("the model named fewer than two possible actions")
    later = point.evidence.history.spans[point.history.newest :]
    texts = [
        *((Kind.ACTION, action) for action in actions),
        *((Kind.PLAN, plan.strip()) for plan in plans if plan.strip()),
        *((Kind.TAKEN, text) for taken in later[:1] if (text := one_line(taken.action or taken.thought))),
    ]
    # The last span first: what a prompt shares with the one before it is not read again.
    spans = sorted(at_stake(point), reverse=True)
    prompts = [prompt, *(without_span(prompt, f"s_{index}") for index in spans)]
    full, *without = await model.score(prompts, [text for _, text in texts])
    scored = Likelihoods(
        place=point.place,
        budget=point.budget,
        model=short_name(model.name),
        texts=tuple(Text(kind, text, len(found.logs)) for (kind, text), found in zip(texts, full, strict=True)),
        full=tuple(found.total for found in full),
        without={index: tuple(found.total for found in row) for index, row in sorted(zip(spans, without, strict=True))},
    )
    return [scored]


async def _replies(model: ScoringDraft, prompt: Prompt, n: int) -> list[str]:
    return [reply.text async for reply in model.sample(prompt, n)]
