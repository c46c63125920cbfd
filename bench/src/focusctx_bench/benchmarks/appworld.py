"""AppWorld (PyPI `appworld`): an agent does errands in a world of everyday apps by writing code that calls their APIs.

AppWorld's own engine runs the code and its own evaluator judges, in the user's interpreter: every task in a process
of its own, and the verdict from another.

    python=PATH     an interpreter with AppWorld; ROOT/.venv/bin/python unless given
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, ConfigError

from ..protocols import Options, Score, Task, ToolCall, tool_definition
from .worker import Worker

RUN = "run_python"
END = "apis.supervisor.complete_task()"

RUN_TOOL = tool_definition(
    RUN,
    "Run Python code in the world's shell. Variables stay from one call to the next; only what the code prints comes "
    "back.",
    {"code": {"type": "string", "description": "The code."}},
)

_PROMPT = """\
You do a task for {first_name} {last_name}, your supervisor (email {email}, phone number {phone_number}), in a world of
everyday apps: mail, notes, files, shopping, payments, music and others. You act by Python code, with the tool {run}.

APIs. Every app's APIs are functions, `apis.APP.API(name=value, ...)`; all arguments are given by name, answers are
lists and dicts. Do not guess what there is, look it up:
- `print(apis.api_docs.show_app_descriptions())` shows the apps,
- `print(apis.api_docs.show_api_descriptions(app_name="..."))` the APIs of an app,
- `print(apis.api_docs.show_api_doc(app_name="...", api_name="..."))` the arguments and the answer of one: read it
  before you call that API for the first time.
A call that fails raises an exception that says why. Answers that come in pages have to be read to the last page.

The supervisor. `apis.supervisor` knows the profile, addresses, payment cards and the passwords of the accounts; with
such a password an app's `login` gives the `access_token` that most of its APIs want. Friends, family and colleagues
are in the contacts of the phone app. What the task calls a file, a note or a message is in these apps, not on the
machine that runs your code; files, processes and the network of that machine are out of reach. The date and the time
of the world are those that `datetime.datetime.now()` gives.

How to work. In small steps, a few calls at a time; print what you have to know and look at it before you go on. Do what
the task says, all of it, and change nothing else. Nobody can be asked: decide by yourself, from what the apps show.

The end. When the task is done, run `apis.supervisor.complete_task()`; if it asks for something,
`apis.supervisor.complete_task(answer=...)` with the bare answer, a name or a number, and no sentence; if it cannot be
done, `apis.supervisor.complete_task(status="fail")`. Nothing can be done after that."""
_INSIDE = Path(__file__).with_name("inside") / "appworld.py"
_SECONDS = 100
"""Seconds that AppWorld gives a piece of code."""
_GRACE = 60.0
"""Seconds more, after which code that does not let itself be stopped ends the task."""
VARIABLE, PYTHON = "FOCUSCTX_APPWORLD", "FOCUSCTX_APPWORLD_PYTHON"
DIFFICULTIES = {1: "easy", 2: "medium", 3: "hard"}
"""AppWorld's levels, in the paper's words."""
_ENGINE = "python3.11 -m venv .venv && .venv/bin/pip install appworld && .venv/bin/appworld install"
_DATA = "`.venv/bin/appworld download data`, run in the folder ROOT, makes ROOT/data"
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


def benchmark(options: Options) -> AppWorld:
    options.check("AppWorld", ("python",))
    return AppWorld(Installation.of(options), options.split)


class AppWorld:
    name = "appworld"

    def __init__(
        self, installation: Installation, split: str = "", *, seconds: int = _SECONDS, grace: float = _GRACE
    ) -> None:
        self._installation = installation
        self._split = split or "test_normal"
        self._seconds = seconds
        self._grace = grace

    def tasks(self) -> Sequence[Task]:
        return self._installation.tasks(self._split)

    async def start(self, task: Task) -> AppWorldTask:
        root = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="focusctx-appworld-"))
        try:
            (root / "data").symlink_to(self._installation.root / "data")
            worker = self.worker(root)
            try:
                opening = await worker.call("start", {"task": task.id, "seconds": self._seconds})
            except BaseException:
                await asyncio.to_thread(worker.close)
                raise
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
        return AppWorldTask(self, root, task.id, worker, opening, patience=self._seconds + self._grace)

    def worker(self, root: Path) -> Worker:
        """Start a program to which `root` is AppWorld's root: what it writes stays in there."""
        command = [str(self._installation.python), str(_INSIDE)]
        return Worker("AppWorld", command, self._installation.environment(root), root)


class AppWorldTask:
    """One task, under way."""

    tools: Sequence[Mapping[str, Any]] = (RUN_TOOL,)

    def __init__(
        self, owner: AppWorld, root: Path, name: str, worker: Worker, opening: Mapping[str, Any], *, patience: float
    ) -> None:
        self._owner = owner
        self._root = root
        self._name = name
        self._worker = worker
        self._patience = patience
        self._completed = False
        self.system = _PROMPT.format(run=RUN, **opening["person"])
        self.task = str(opening["instruction"])

    async def act(self, call: ToolCall) -> str:
        code = call.arguments.get("code")
        if not isinstance(code, str):
            return f"Error: {RUN} needs `code`, a string."
        try:
            said = await asyncio.wait_for(self._worker.call("run", {"code": code}), self._patience)
        except TimeoutError:
            await asyncio.to_thread(self._worker.close)
            return "Error: the code could not be stopped. The world was closed, as it was before this code."
        except BenchError:
            if self._worker.is_alive:
                raise
            return "Error: the code ended the program that ran it. The world was closed, as it was before this code."
        self._completed = said["over"]
        return str(said["text"])

    async def hear(self, text: str) -> str | None:  # noqa: ARG002
        return f"Nobody reads this. Call {RUN}; when the task is done, run `{END}`."

    def is_over(self) -> bool:
        return self._completed or not self._worker.is_alive

    async def score(self) -> Score:
        await asyncio.to_thread(self._worker.close)
        judges = self._owner.worker(self._root)
        try:
            verdict = await judges.call("evaluate", {"task": self._name})
        finally:
            await asyncio.to_thread(judges.close)
        failed = [check["requirement"] for check in verdict["failures"]]
        details = {"checks": verdict["num_tests"], "failed_checks": len(failed), "failed": failed}
        return Score(float(verdict["success"]), {**details, "completed": self._completed})

    async def close(self) -> None:
        await asyncio.to_thread(self._worker.close)
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Installation:
    """Requirements of the tasks: an interpreter with AppWorld, and the task data."""

    root: Path
    """The folder that has AppWorld's `data`."""
    python: Path

    @classmethod
    def of(cls, options: Options) -> Installation:
        told = options.data or os.environ.get(VARIABLE)
        if not told:
            raise BenchError(
                f"AppWorld was not found: {_ENGINE}; {_DATA}; then name ROOT by --data or in {VARIABLE} "
                f"(and the interpreter by --set python=PATH or {PYTHON} if it is not in ROOT/.venv)"
            )
        root = Path(told).absolute()
        if not (root / "data" / "datasets").is_dir():
            raise BenchError(f"{root} contains no AppWorld tasks (data/datasets): {_DATA}")
        python = Path(options.more.get("python") or os.environ.get(PYTHON) or root / ".venv" / "bin" / "python")
        if not python.is_file():
            raise BenchError(
                f"AppWorld has no interpreter at {python}: {_ENGINE}; or name one that has it "
                f"(--set python=PATH or {PYTHON})"
            )
        return cls(root, python.absolute())

    def tasks(self, split: str) -> list[Task]:
        """Return the tasks of a split, in the file's order."""
        listed = self.root / "data" / "datasets" / f"{split}.txt"
        if not listed.is_file():
            known = ", ".join(sorted(path.stem for path in listed.parent.glob("*.txt")))
            raise ConfigError(f"AppWorld has no split {split!r}; it has {known}")
        names = (line.partition(":")[0].strip() for line in listed.read_text(encoding="utf-8").splitlines())
        return [Task(name, self._difficulty(name)) for name in names if name]

    def environment(self, root: Path) -> dict[str, str]:
        """Return the variables of the program that runs the agent's code, which can read them: only what it needs."""
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {**passed_on, "APPWORLD_ROOT": str(root), "IPYTHONDIR": str(root / "ipython")}

    def _difficulty(self, task: str) -> str:
        path = self.root / "data" / "tasks" / task / "ground_truth" / "metadata.json"
        try:
            return DIFFICULTIES[json.loads(path.read_bytes())["difficulty"]]
        except (OSError, ValueError, KeyError) as error:
            raise BenchError(f"{path} lacks the task's difficulty; is the data complete? {_DATA}") from error
