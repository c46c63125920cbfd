"""The leave-one-out pass: for each event a vocabulary, a few plans, and how likely they are without each span.

The only part of the study that needs a model's probabilities. What it finds is added to a file, event by event, so
that a pass that was stopped goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from focusctx.config import FocusConfig
from focusctx.errors import BenchError, FocusError
from focusctx.replay.files import short_name
from focusctx.replay.points import Point
from focusctx.replay.record import end_the_last_line
from focusctx.types import Prompt

from ...local_models.likelihood import ScoringDraft, without_span
from .elicit import one_line, plan_prompt, vocabulary, vocabulary_prompt
from .events import at_stake, place_of
from .likelihoods import Kind, Likelihoods, Text, read_likelihoods, to_line

_AT_ONCE = 8
"""Events in the making at a time: few enough to lose little when stopped."""
_LEAST_ACTIONS = 2


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is asked at each event."""

    actions: int = 12
    lists: int = 3
    """Replies that list possible actions."""
    plans: int = 4


async def score_points(
    model: ScoringDraft,
    points: Sequence[Point],
    path: Path,
    amounts: Amounts,
    watch: Callable[[int, int, str | None], None],
) -> None:
    """Score what the file does not have yet. `watch` gets how many are done, of how many, and what went wrong."""
    done = {scored.place for scored in read_likelihoods(path)} if path.exists() else set()
    left = [point for point in points if place_of(point) not in done]
    finished = len(points) - len(left)
    watch(finished, len(points), None)
    gate = asyncio.Semaphore(_AT_ONCE)
    path.parent.mkdir(parents=True, exist_ok=True)

    async def one(point: Point) -> None:
        nonlocal finished
        problem = None
        async with gate:
            try:
                _add(path, await _score(model, point, amounts))
            except FocusError as error:  # one event that cannot be scored must not cost the others
                problem = f"{point}: {error}"
        finished += 1
        watch(finished, len(points), problem)

    async with asyncio.TaskGroup() as group:
        for point in left:
            group.create_task(one(point))


async def _score(model: ScoringDraft, point: Point, amounts: Amounts) -> Likelihoods:
    window = FocusConfig().draft_window
    prompt = plan_prompt(point.history, window)
    plans, lists = await asyncio.gather(
        _replies(model, prompt, amounts.plans),
        _replies(model, vocabulary_prompt(point.history, window, amounts.actions), amounts.lists),
    )
    actions = vocabulary(lists, plans, amounts.actions)
    if len(actions) < _LEAST_ACTIONS:
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
    return Likelihoods(
        place=place_of(point),
        budget=point.budget,
        model=short_name(model.name),
        texts=tuple(Text(kind, text, len(found.logs)) for (kind, text), found in zip(texts, full, strict=True)),
        full=tuple(found.total for found in full),
        without={index: tuple(found.total for found in row) for index, row in sorted(zip(spans, without, strict=True))},
    )


async def _replies(model: ScoringDraft, prompt: Prompt, n: int) -> list[str]:
    return [reply.text async for reply in model.sample(prompt, n)]


def _add(path: Path, scored: Likelihoods) -> None:
    end_the_last_line(path)
    with path.open("ab", buffering=0) as file:
        file.write(f"{to_line(scored)}\n".encode())
