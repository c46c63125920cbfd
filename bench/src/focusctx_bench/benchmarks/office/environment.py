"""The office as a benchmark: a task is a world and a list of chores, and it went well when the world is as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocols import Score, Task, ToolCall
from . import apps as apps  # noqa: PLC0414 -- importing it makes the tools
from .tasks import STEP_LIMITS, Assignment, difficulty_of, make
from .tool import TOOLS

SYSTEM = (
    "You do office chores for the user with the tools you are given. Every app but notes and desk wants you to log in "
    "first and then to pass its token with every call. Do the chores in order, do nothing that was not asked for, and "
    "say so when all are done."
)

DEFAULT_TASKS = 120


class OfficeTask:
    """One task, under way."""

    system = SYSTEM

    def __init__(self, assignment: Assignment) -> None:
        self.world = assignment.world
        self.task = assignment.words
        self.tools = [tool.definition() for tool in TOOLS.values()]

    async def act(self, call: ToolCall) -> str:
        return TOOLS[call.name].run(self.world, call.arguments)

    async def hear(self, text: str) -> str | None:  # noqa: ARG002
        return None

    def is_over(self) -> bool:
        return False

    async def score(self) -> Score:
        complaints = self.world.complaints()
        return Score(float(not complaints), {"complaints": complaints})

    async def close(self) -> None:
        pass


class Office:
    """`tasks` tasks by seed, a third of each class. No download, no key."""

    name = "office"

    def __init__(self, seed: int = 42, tasks: int = DEFAULT_TASKS) -> None:
        self._seed = seed
        self._count = tasks

    def tasks(self) -> Sequence[Task]:
        return [self.task(number) for number in range(self._count)]

    def task(self, number: int) -> Task:
        difficulty = difficulty_of(number)
        kinds = make(self._seed, number).kinds
        data = {"seed": self._seed, "number": number, "kinds": list(kinds)}
        return Task(f"office-{self._seed}-{number:04d}", difficulty, data, STEP_LIMITS[difficulty])

    async def start(self, task: Task) -> OfficeTask:
        return OfficeTask(make(task.data["seed"], task.data["number"]))
