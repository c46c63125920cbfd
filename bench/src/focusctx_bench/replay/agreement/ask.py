"""Asking a model for its next turn at every point, under every view; what was answered before is not asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from focusctx.errors import ModelError
from focusctx.replay.methods import Setup
from focusctx.replay.points import Point
from focusctx.types import Message

from ...seams import Model
from .answers import AGAIN, RECORDED, Answers
from .tools import Tool
from .views import View, recorded_turn

Watch = Callable[[int, int, str | None], None]
"""Told how many requests are over, of how many, and what went wrong with the last of them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, and the views that it stands for: methods often leave the same messages."""

    messages: Sequence[Message]
    views: tuple[View, ...]


def requests(views: Sequence[View]) -> list[Request]:
    """Each prompt once for a point, save that of `again`. Short ones first: a batch is padded to its longest prompt."""
    found: dict[tuple[object, ...], list[View]] = {}
    for view in views:
        told = json.dumps(view.messages, sort_keys=True)
        place = view.point.file, view.point.run, view.point.messages
        found.setdefault((*place, view.method == AGAIN, told), []).append(view)
    made = [Request(some[0].messages, tuple(some)) for some in found.values()]
    return sorted(made, key=lambda request: request.views[0].tokens)


async def ask(
    model: Model,
    views: Sequence[View],
    answers: Answers,
    *,
    setup: Setup,
    tools: Mapping[str, Sequence[Tool]],
    at_once: int,
    watch: Watch,
) -> int:
    """The turns of the model, with those of the recorded agent beside them; how many requests failed.

    `tools` are those of each file. What failed is asked again by the next call.
    """
    known = answers.open()

    def is_new(view: View) -> bool:
        return view.answer(setup, model.name, {}).key not in known

    for point in _points(views):
        turn = recorded_turn(point)
        view = View(point, RECORDED, (), 0, 0)
        if turn is not None and is_new(view):
            answers.add(view.answer(setup, model.name, turn))
    todo = requests([view for view in views if is_new(view)])
    places = asyncio.Semaphore(at_once)
    over = failed = 0

    async def one(request: Request) -> None:
        nonlocal over, failed
        problem = None
        async with places:
            try:
                turn = await model.answer(request.messages, tools[request.views[0].point.file])
            except ModelError as error:
                problem = f"{request.views[0].point}: {error}"
            else:
                for view in request.views:
                    answers.add(view.answer(setup, model.name, turn.message))
        over += 1
        failed += problem is not None
        watch(over, len(todo), problem)

    async with asyncio.TaskGroup() as group:
        for request in todo:
            group.create_task(one(request))
    return failed


def _points(views: Sequence[View]) -> list[Point]:
    return list({id(view.point): view.point for view in views}.values())
