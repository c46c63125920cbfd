"""A model's next turns at points of recorded runs: under each view, asked and recorded, and read as actions.

A view is what a method, comparators included, would have the agent read at a point. An answer is the record of one
turn under one view; what was answered before is not asked again. The action of a turn is its tools, in order, and
the values it gives them. Of a shell command the tool is the program it runs, and the values are its words; a turn
that calls nothing and runs nothing speaks, and its values are its words. Thoughts beside an action do not count.
"""

from __future__ import annotations

import json
import random
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from focusctx.baselines.method import Method
from focusctx.jobs.engines import InProcess, Meter
from focusctx.jobs.records import Key, PlainRecord, RecordFile
from focusctx.jobs.runner import Runner, Tally, Watch
from focusctx.replay.comparators import COMPARATORS, comparator
from focusctx.replay.methods import FOCUS, Methods, ReplaySettings, close_method
from focusctx.replay.record import settings_text
from focusctx.types import Message

from ...protocols import Model
from ..judge import make_method
from ..points import Place, Point
from ..sketches import PointSketches
from .local import Tool

ANSWERS = "answers.jsonl"

FULL = "none"
"""The view that others are held against: the full history."""
AGAIN = "again"
"""The full history once more: how far the model agrees with itself."""
RECORDED = "recorded"
"""No view: what the recorded agent did."""
SEED = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(PlainRecord):
    """One turn, at one point of a run, under one method."""

    file: str
    run: str
    messages: int
    """Number of leading messages of the run that were the history."""
    model: str
    """The model that was asked."""
    method: str
    draft: str = ""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as in the records of points."""
    history_tokens: int
    sent_tokens: int
    """Tokens of the view, system prompt excluded."""
    span_tokens: int
    span_left: int
    turn: Message
    """The assistant message."""

    @property
    def place(self) -> Place:
        return self.file, self.run, self.messages

    @property
    def line(self) -> tuple[str, str, str]:
        """Key of the table line that the answer belongs to."""
        return self.method, self.draft, settings_text(self.settings)

    @property
    def key(self) -> Key:
        return *self.place, self.model, *self.line, self.budget


def answer_file(folder: Path) -> RecordFile[Answer]:
    return RecordFile(folder / ANSWERS, Answer.from_json)


@dataclass(frozen=True, slots=True)
class MethodView:
    point: Point
    method: str
    messages: Sequence[Message]
    tokens: int
    """System prompt excluded."""
    left: int
    """Tokens of spans."""

    def answer(self, settings: ReplaySettings, model: str, turn: Message) -> Answer:
        point, compressed = self.point, self.method not in (FULL, AGAIN, RECORDED)
        return Answer(
            file=point.file,
            run=point.run,
            messages=point.messages,
            model=model,
            method=self.method,
            draft=settings.draft_of(self.method) if compressed else "",
            budget=point.budget,
            settings=settings.settings_of(self.method) if compressed else {},
            history_tokens=point.history.tokens,
            sent_tokens=self.tokens,
            span_tokens=point.span_tokens,
            span_left=self.left,
            turn=turn,
        )


async def views_at(methods: Methods, recorded: Sequence[PointSketches], point: Point, _: Meter) -> list[MethodView]:
    """Return the full history twice, then the view of every method with its comparators. One that failed has none."""
    settings = methods.settings
    found = [_view(point, name, point.sent) for name in (FULL, AGAIN)]
    for name in settings.methods:
        if name == FULL:
            continue
        method = make_method(methods, name, point, recorded)
        own = await _under(method, name, point)
        close_method(method)
        if own is None:
            continue
        found.append(own)
        for other in COMPARATORS if settings.matched and name in FOCUS else ():
            matched = comparator(other, name, {point.history.newest: own.left}, methods.embed)
            found += filter(None, [await _under(matched, matched.name, point)])
    return found


async def _under(method: Method, name: str, point: Point) -> MethodView | None:
    sent = await method.compress(point.sent)
    return None if sent.failure is not None else _view(point, name, sent.messages)


def recorded_turn(point: Point) -> Message | None:
    """Return the turn of the recorded agent at the point."""
    messages = point.evidence.run.messages
    turn = messages[point.messages] if point.messages < len(messages) else {}
    return turn if turn.get("role") == "assistant" else None


def sample(points: Iterable[Point], number: int, longest: int) -> list[Point]:
    """Choose `number` points, files in turn, always the same ones: of those at which the recorded agent acted (words to
    a user can be the same in many ways) and whose history has no more tokens than `longest`."""
    files: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        turn = recorded_turn(point)
        if turn and action_of(turn).tools != (SAYS,) and point.evidence.tokens_before(point.messages) <= longest:
            files[point.file].append(point)
    for name, some in files.items():
        random.Random(f"{SEED} {name}").shuffle(some)
    in_turn = zip_longest(*map(reversed, files.values()))
    return [point for turn in in_turn for point in turn if point is not None][:number]


def _view(point: Point, method: str, messages: Sequence[Message]) -> MethodView:
    judged = point.judge(messages)
    return MethodView(point, method, messages, judged.seen.tokens, judged.left)


class Request(list[MethodView]):
    """The views that one prompt stands for: methods often leave the same messages."""

    def __str__(self) -> str:
        return str(self[0].point)


def requests(views: Sequence[MethodView]) -> list[Request]:
    """Return each prompt once for a point, save that of `again`; the shortest first, as a batch is padded to its
    longest prompt."""
    found: defaultdict[tuple[object, ...], Request] = defaultdict(Request)
    for view in views:
        text = json.dumps(view.messages, sort_keys=True)
        found[*view.point.place, view.method == AGAIN, text].append(view)
    return sorted(found.values(), key=lambda request: request[0].tokens)


def ask_all(
    model: Model,
    views: Sequence[MethodView],
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

    def is_new(view: MethodView) -> bool:
        return view.answer(settings, model.name, {}).key not in known

    for point in {view.point.place: view.point for view in views}.values():
        turn = recorded_turn(point)
        view = MethodView(point, RECORDED, (), 0, 0)
        if turn is not None and is_new(view):
            answers.add(view.answer(settings, model.name, turn))
    work = partial(_ask, model, settings, tools)
    runner = Runner(InProcess(at_once), work, lambda made: answers.add(*made), part=lambda _: "answers", watch=watch)
    return runner.run_all(requests([view for view in views if is_new(view)]))


async def _ask(
    model: Model, settings: ReplaySettings, tools: Mapping[str, Sequence[Tool]], request: Request, _: Meter
) -> list[Answer]:
    turn = await model.answer(request[0].messages, tools[request[0].point.file])
    return [view.answer(settings, model.name, turn.message) for view in request]


SAYS = "say"
"""The tool of a turn that only speaks."""

_SHELL = re.compile(r"```(?:bash|sh)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
"""The block that a text agent runs; where the answer was cut it has no end."""
_COMMANDS = frozenset({"command", "cmd"})
"""A tool whose one argument has such a name is a shell."""
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT = re.compile(r"\w+=")
_ON_THE_WAY = frozenset({"cd", "export", "set", "source", "sudo"})
"""Programs that only prepare for the one that matters."""


@dataclass(frozen=True, slots=True)
class Action:
    tools: tuple[str, ...]
    values: tuple[str, ...]


class Agreement(NamedTuple):
    """Agreement of two actions; each figure is between 0 and 1."""

    exact: float
    """1 if tools and values are equal, in order; white space aside."""
    tool: float
    """1 if the tools are equal, in order."""
    arguments: float
    """Share of values in common: 2·|A ∩ B| / (|A| + |B|), each value as often as it occurs."""


def action_of(message: Message) -> Action:
    """Return the action of a Chat Completions assistant message."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if calls:
        read = [_called(str(call["name"]), call.get("arguments")) for call in calls]
        return Action(tuple(tool for tool, _ in read), tuple(value for _, values in read for value in values))
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in content)
    if commands := _SHELL.findall(text):
        return Action(tuple(map(_program, commands)), tuple(word for one in commands for word in _words(one)))
    return Action((SAYS,), tuple(re.findall(r"\w+", text.lower())))


def agreement(one: Action, other: Action) -> Agreement:
    ours, theirs = Counter(one.values), Counter(other.values)
    total = ours.total() + theirs.total()
    return Agreement(
        exact=float(one == other),
        tool=float(one.tools == other.tools),
        arguments=2 * (ours & theirs).total() / total if total else 1.0,
    )


def leaves(value: Any) -> Iterator[str]:
    """Yield the values in an argument, in order of their names."""
    if isinstance(value, Mapping):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield " ".join(value.split())
    else:
        yield json.dumps(value)


def _called(name: str, arguments: Any) -> tuple[str, Sequence[str]]:
    """Return a call's tool and values; a model may write arguments that are not JSON: their words count."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return name, arguments.split()
    if isinstance(arguments, Mapping) and len(arguments) == 1 and arguments.keys() <= _COMMANDS:
        command = str(next(iter(arguments.values())))
        return f"{name}:{_program(command)}", _words(command)
    return name, list(leaves(arguments))


def _program(command: str) -> str:
    """Return the first program of a command line that is more than a preparation."""
    for part in _SEPARATOR.split(command):
        words = [word for word in part.split() if not _ASSIGNMENT.match(word)]
        if words and words[0] not in _ON_THE_WAY:
            return words[0].rpartition("/")[2]
    return next(iter(command.split()), "")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation mark: a script, or an answer that was cut
        return command.split()
