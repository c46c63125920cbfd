"""AppWorld as a benchmark of ours: every task a process of its own, and the verdict from another."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError

from ...protocols import Options, Score, Task, ToolCall
from ..foreign.settings import check_settings
from ..foreign.worker import Worker
from .installation import Installation
from .prompt import END, RUN, RUN_TOOL, system_prompt

_INSIDE = Path(__file__).with_name("inside.py")
_SECONDS = 100
"""What AppWorld gives a piece of code."""
_GRACE = 60.0
"""Seconds more, after which code that does not let itself be stopped ends the task."""


def benchmark(options: Options) -> AppWorld:
    check_settings("AppWorld", options, ("python",))
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

    async def start(self, task: Task) -> World:
        root = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="focusctx-appworld-"))
        try:
            (root / "data").symlink_to(self._installation.root / "data")
            return await self._open(root, task.id)
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise

    async def _open(self, root: Path, task: str) -> World:
        worker = self.worker(root)
        try:
            opening = await worker.call("start", {"task": task, "seconds": self._seconds})
        except BaseException:
            await asyncio.to_thread(worker.close)
            raise
        return World(self, root, task, worker, opening, patience=self._seconds + self._grace)

    def worker(self, root: Path) -> Worker:
        """A program to which `root` is AppWorld's root: what it writes stays in there."""
        command = [str(self._installation.python), str(_INSIDE)]
        return Worker("AppWorld", command, self._installation.environment(root), root)


class World:
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
        self.system = system_prompt(opening["person"])
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
