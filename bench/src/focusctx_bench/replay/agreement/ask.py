"""Ask a model for its next turn at every point, under every view; what was answered before is not asked again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from focusctx.jobs.engines import InProcess, Meter
from focusctx.jobs.records import RecordFile
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.replay.methods import ReplaySettings
from focusctx.types import Message

from ...protocols import Model
from .tools import Tool
from .views import AGAIN, RECORDED, Answer, View, recorded_turn


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, and the views that it stands for: methods often leave the same messages."""

    messages: Sequence[Message]
    views: tuple[View, ...]

    def __str__(self) -> str:
        return str(self.views[0].point)


def requests(views: Sequence[View]) -> list[Request]:
    """Return each prompt once for a point, save that of `again`; the shortest first, as a batch is padded to its
    longest prompt."""
    found: dict[tuple[object, ...], list[View]] = {}
    for view in views:
        text = json.dumps(view.messages, sort_keys=True)
        found.setdefault((*view.point.place, view.method == AGAIN, text), []).append(view)
    made = [Request(some[0].messages, tuple(some)) for some in found.values()]
    return sorted(made, key=lambda request: request.views[0].tokens)


def ask_all(
    model: Model,
    views: Sequence[View],
    answers: RecordFile[Answer],
    *,
    settings: ReplaySettings,
    tools: Mapping[str, Sequence[Tool]],
    at_once: int,
    watch: Watch,
) -> Tally:
    """Record the turns of the model, and those of the recorded agent beside them.

    `tools` are those of each file. What failed is asked again by the next call.
    """
    known = answers.latest()

    def is_new(view: View) -> bool:
        return view.answer(settings, model.name, {}).key not in known

    for point in {view.point.place: view.point for view in views}.values():
        turn = recorded_turn(point)
        view = View(point, RECORDED, (), 0, 0)
        if turn is not None and is_new(view):
            answers.add(view.answer(settings, model.name, turn))
    work = partial(_ask, model, settings, tools)
    runner = Runner(
        InProcess(at_once), work, lambda made: answers.add(*made), part=lambda _: "answers", watch=watch
    )  # fmt: skip
    return runner.run_all(requests([view for view in views if is_new(view)]))


async def _ask(
    model: Model, settings: ReplaySettings, tools: Mapping[str, Sequence[Tool]], request: Request, _: Meter
) -> list[Answer]:
    turn = await model.answer(request.messages, tools[request.views[0].point.file])
    return [view.answer(settings, model.name, turn.message) for view in request.views]
