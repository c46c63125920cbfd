"""A small stateful office, made by seed: our own testbed for compression methods. See docs/office.md.

A task is a world and a list of chores, and it went well when the world is as wanted. The testbed says nothing about
language models: its agent is scripted and can act only on what its context shows, so that two methods can be
compared exactly, in seconds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from focusctx.errors import ConfigError

from ...models.scripted import FunctionModel
from ...protocols import Options, Score, Task, ToolCall
from .apps import TOOLS
from .chores import CHORES, NOTES, PAIRS, READ_FIRST, REMINDER, Chore, Rule, plant
from .clerk import decide
from .planner import PlannerDraft
from .world import Builder, World

CLASSES = ("easy", "medium", "hard")
"""Classes of tasks. When nothing is forgotten they take about 12 to 27, 24 to 45 and 42 to 60 steps."""
STEP_LIMITS = {"easy": 40, "medium": 70, "hard": 120}
"""Twice what is needed: room to look up what is gone, not for doing so over and over."""
_SIZES = {"easy": (1, 0, 3, 5), "medium": (2, 1, 3, 4), "hard": (3, 2, 3, 5)}
"""Chores, pairs, and the least and most that a chore is about."""
_OPENING = "Please do these chores for me, in this order."
_CLOSING = (
    "My passwords stand in the note 'passwords'. Keep to the note 'house rules' in all you pay, write and plan. "
    "A call that failed fails again: do not repeat it."
)
SYSTEM = (
    "You do office chores for the user with the tools you are given. Every app but notes and desk wants you to log in "
    "first and then to pass its token with every call. Do the chores in order, do nothing that was not asked for, and "
    "say so when all are done."
)
DEFAULT_TASKS = 120


def benchmark(options: Options) -> Office:
    """Return an office by `--seed`, with `tasks=N` tasks; `rules=true` adds a rule to the hard ones."""
    options.check("office", ("tasks", "rules"))
    if options.split:
        raise ConfigError(f"office has no splits, got {options.split!r}: another --seed makes other tasks")
    count = options.more.get("tasks", str(DEFAULT_TASKS))
    if not count.isdecimal() or int(count) == 0:
        raise ConfigError(f"tasks must be a whole number above 0, got {count!r}")
    rules = options.more.get("rules", "false")
    if rules not in ("true", "false"):
        raise ConfigError(f"rules must be true or false, got {rules!r}")
    return Office(options.seed, int(count), rules == "true")


def scripted() -> FunctionModel:
    return FunctionModel(decide, "scripted:office")


def scripted_draft(misses: float = 0.0) -> PlannerDraft:
    """A draft that cites what the chores that are left need; with `misses`, one that overlooks that share of it."""
    return PlannerDraft(misses)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task, made."""

    world: World
    words: str
    kinds: tuple[str, ...]
    """The chores it is made of, by name."""
    rule: Rule | None = None
    """The rule that was added."""


def difficulty_of(number: int) -> str:
    return CLASSES[number % len(CLASSES)]


def make(seed: int, number: int, with_rule: bool = False) -> Assignment:
    """Make a task, always the same one for the same seed and number. Only hard tasks can have a rule."""
    chance = random.Random(f"office {seed} {number}")
    count, pairs, least, most = _SIZES[difficulty_of(number)]
    builder = Builder(chance)
    singles = chance.sample(CHORES, count)
    doubles = chance.sample(PAIRS, pairs)
    chores = [kind(builder, chance.randint(least, most)) for kind in singles] + [kind(builder) for kind in doubles]
    rule = plant(builder, seed, number) if with_rule else None
    kinds = tuple(kind.__name__ for kind in (*singles, *doubles))
    return Assignment(builder.world, _words(chores, rule), kinds, rule)


def _words(chores: list[Chore], rule: Rule | None = None) -> str:
    """Number the user's words: pairs begin before all the others and end after them."""
    pairs = [chore for chore in chores if chore.last]
    single = [chore.first for chore in chores if not chore.last]
    lines = [*(chore.first for chore in pairs), *single, *(chore.last for chore in pairs)]
    if rule is not None and rule.place == "policy":
        lines.insert(0, READ_FIRST)
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    return "\n".join([_OPENING, *numbered, _CLOSING if rule is None else f"{_CLOSING} {REMINDER}"])


class OfficeTask:
    """One task, under way."""

    system = SYSTEM

    def __init__(self, assignment: Assignment) -> None:
        self.world = assignment.world
        self.task = assignment.words
        self._rule = assignment.rule
        self.tools = [tool.definition() for tool in TOOLS.values()]

    async def act(self, call: ToolCall) -> str:
        return TOOLS[call.name].run(self.world, call.arguments)

    async def hear(self, text: str) -> str | None:  # noqa: ARG002
        return None

    def is_over(self) -> bool:
        return False

    async def score(self) -> Score:
        complaints = self.world.complaints()
        details: dict[str, object] = {"complaints": complaints}
        if self._rule is not None:
            rule = self._rule
            about = {"kind": rule.kind, "place": rule.place, "note": NOTES[rule.place], "text": rule.text}
            details["rule"] = {**about, "value": rule.value, "outcome": rule.outcome(self.world)}
        return Score(float(not complaints), details)

    async def close(self) -> None:
        pass


class Office:
    """`tasks` tasks by seed, a third of each class; with `rules` only the hard ones. No download, no key."""

    name = "office"

    def __init__(self, seed: int = 42, tasks: int = DEFAULT_TASKS, rules: bool = False) -> None:
        self._seed = seed
        self._count = tasks
        self._rules = rules

    def tasks(self) -> Sequence[Task]:
        numbers = range(self._count)
        return [self.task(number) for number in numbers if not self._rules or difficulty_of(number) == "hard"]

    def task(self, number: int) -> Task:
        difficulty = difficulty_of(number)
        kinds = make(self._seed, number).kinds
        data = {"seed": self._seed, "number": number, "kinds": list(kinds)}
        kind = "office-rules" if self._rules else "office"
        return Task(f"{kind}-{self._seed}-{number:04d}", difficulty, data, STEP_LIMITS[difficulty])

    async def start(self, task: Task) -> OfficeTask:
        return OfficeTask(make(task.data["seed"], task.data["number"], self._rules))
