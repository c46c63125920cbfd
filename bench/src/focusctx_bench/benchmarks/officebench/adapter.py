"""OfficeBench as a benchmark of ours: tasks, the app that is open, actions, the verdict."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError

from ...protocols import Model, Options, Score, Task, ToolCall, tool_definition
from ...spending import environment_model
from ..foreign.worker import SERVING, Worker
from .checkout import Checkout, Place
from .sandbox import Sandbox

SWITCH = "switch_app"
FINISH = "finish_task"

_PARAMETER = re.compile(r"'(\w+)': \[([A-Z_]+)\]")


@dataclass(frozen=True, slots=True)
class Action:
    app: str
    action: str
    file: str
    """The app's file that runs it."""
    demo: str
    """Such as: `read a pdf file: {'app': 'pdf', 'action': 'read_file', 'pdf_file_path': [THE_PATH_…]}`."""

    @property
    def tool(self) -> str:
        return f"{self.app}_{self.action}"

    def definition(self) -> dict[str, Any]:
        described = self.demo.partition("{")[0].strip().removesuffix(":")
        parameters = {
            name: {
                "type": "integer" if placeholder.endswith("_INDEX") else "string",
                "description": placeholder.replace("_", " ").lower(),
            }
            for name, placeholder in _PARAMETER.findall(self.demo)
        }
        return tool_definition(self.tool, described, parameters)


def actions_of(app: str, described: Mapping[str, Any]) -> dict[str, Action]:
    """Return the actions of an app by the names of their tools."""
    actions = (Action(app, action, **told) for action, told in described["actions"].items())
    return {action.tool: action for action in actions}


def switch(apps: Iterable[str]) -> dict[str, Any]:
    parameters = {"target_app": {"type": "string", "enum": list(apps)}}
    return tool_definition(SWITCH, "Open an app: its actions become your tools, those of the last one go.", parameters)


def finish() -> dict[str, Any]:
    parameters = {"answer": {"type": "string", "description": "if the task is a question"}}
    return tool_definition(FINISH, "The task is done.", parameters, optional=parameters)


_INSIDE = Path(__file__).with_name("inside.py")
_OURS = {"/.focusctx/serving.py": SERVING, "/.focusctx/inside.py": _INSIDE}
_LLM = "llm"
_SECONDS = 60.0
"""For a command. OfficeBench gives 10, too few for LibreOffice on a busy machine."""


def benchmark(options: Options) -> OfficeBench:
    options.check("OfficeBench", ("python", "sandbox", "splits", "llm"))
    checkout = Checkout.of(options)
    splits, llm = options.more.get("splits"), options.more.get("llm")
    return OfficeBench(
        checkout,
        Sandbox.of(options, checkout),
        split=options.split,
        splits=Path(splits) if splits else None,
        llm=environment_model(llm, "the llm app", seed=options.seed) if llm else None,
    )


class OfficeBench:
    name = "officebench"

    def __init__(
        self,
        checkout: Checkout,
        sandbox: Sandbox,
        *,
        split: str = "",
        splits: Path | None = None,
        llm: Model | None = None,
    ) -> None:
        self._checkout = checkout
        self._sandbox = sandbox
        self._split = split, splits
        self._llm = llm
        self._apps: Mapping[str, Any] = {}
        self._describing = asyncio.Lock()

    def tasks(self) -> Sequence[Task]:
        return self._checkout.tasks(*self._split)

    async def start(self, task: Task) -> Office:
        apps = await self._described()
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="focusctx-officebench-"))
        try:
            place = await asyncio.to_thread(self._checkout.lay_out, task.id, folder)
            return Office(self, place, self._checkout.config(task.id), apps, self._llm)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def worker(self, folder: Path, changing: Mapping[str, Path], *, judging: bool = False) -> Worker:
        """A program in a sandbox of its own, in which these folders may be changed; `folder` is for its root."""
        shown = {name: self._checkout.root / name[1:] for name in ("/apps", "/utils") if judging or name == "/apps"}
        program = [self._sandbox.python, *_OURS]
        (root := folder / "root").mkdir(exist_ok=True)
        command = self._sandbox.command(program, root, {**shown, **_OURS}, changing)
        return Worker("OfficeBench", command, self._sandbox.environment)

    async def _described(self) -> Mapping[str, Any]:
        """The apps' own words, asked once."""
        async with self._describing:
            if not self._apps:
                with tempfile.TemporaryDirectory(prefix="focusctx-officebench-") as folder:
                    worker = self.worker(Path(folder), {})
                    try:
                        described = await worker.call("describe", {})
                    finally:
                        await asyncio.to_thread(worker.close)
                self._apps = {name: app for name, app in described.items() if name != _LLM or self._llm}
        return self._apps


class Office:
    """One task, under way."""

    def __init__(
        self, owner: OfficeBench, place: Place, config: Mapping[str, Any], apps: Mapping[str, Any], llm: Model | None
    ) -> None:
        self._owner = owner
        self._place = place
        self._config = config
        self._apps = apps
        self._llm = llm
        self._app = ""
        self._over = False
        self._worker = self._open()
        self.system = _system(config, apps)
        self.task = str(config["task"])

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools of the open app, as OfficeBench shows them, and two that are always there."""
        actions = [action.definition() for action in self._actions().values()]
        return [*actions, switch(name for name in self._apps if name != self._app), finish()]

    async def act(self, call: ToolCall) -> str:
        if call.name == SWITCH:
            return self._switch(str(call.arguments.get("target_app")))
        if call.name == FINISH:
            said = await self._inside("finish", answer=str(call.arguments.get("answer")))
            self._over = not said.startswith("Error:")
            return said
        action = self._actions()[call.name]
        if action.app == _LLM and self._llm:
            prompt = {"role": "user", "content": str(call.arguments.get("prompt"))}
            return (await self._llm.answer([prompt], ())).text
        told = {"arguments": dict(call.arguments), "seconds": _SECONDS}
        return await self._inside("act", app=action.app, file=action.file, **told)

    async def hear(self, text: str) -> str | None:  # noqa: ARG002
        return f"Nobody reads this. Call a tool; when the task is done, call {FINISH}."

    def is_over(self) -> bool:
        return self._over

    async def score(self) -> Score:
        """In a sandbox of its own: the agent could not see the answers, and cannot meddle with the judges."""
        await asyncio.to_thread(self._worker.close)
        changing = {"/testbed": self._place.testbed, "/task": self._place.folder}
        judges = self._owner.worker(self._place.folder, changing, judging=True)
        inside = Path("/task") / self._place.testbed.relative_to(self._place.folder)
        try:
            checks = await judges.call("evaluate", {"testbed": str(inside), "evaluation": self._config["evaluation"]})
        finally:
            await asyncio.to_thread(judges.close)
        failed = [check for check in checks if not check["passed"]]
        return Score(float(not failed), {"checks": len(checks), "failed_checks": len(failed), "failed": failed})

    async def close(self) -> None:
        await asyncio.to_thread(self._worker.close)
        await asyncio.to_thread(shutil.rmtree, self._place.folder, ignore_errors=True)

    def _actions(self) -> dict[str, Any]:
        return actions_of(self._app, self._apps[self._app]) if self._app else {}

    def _switch(self, app: str) -> str:
        if app not in self._apps:
            return f"Error: there is no app {app!r}. Apps: {', '.join(self._apps)}."
        self._app = app
        return f"Switched to {app}. Its tools: {', '.join(self._actions())}."

    async def _inside(self, do: str, **arguments: Any) -> str:
        """All that touches the agent's files happens in the sandbox: out here a link of its could lead anywhere."""
        try:
            return str(await self._worker.call(do, arguments))
        except BenchError:
            if self._worker.is_alive:
                raise
            self._worker = self._open()
            return "Error: this ended all programs, the one that runs your actions too. It was started again."

    def _open(self) -> Worker:
        return self._owner.worker(self._place.folder, {"/testbed": self._place.testbed})


def _system(config: Mapping[str, Any], apps: Mapping[str, Any]) -> str:
    introduced = "\n".join(f"- {app['intro']}" for app in apps.values())
    return (
        f"You do office work for {config['username']}. It is {config['weekday']}, {config['date']}, "
        f"{config['time']}.\n"
        f"Work step by step, with the tools of one app at a time; {SWITCH} opens an app. The files for the task are "
        "in /testbed/data; the shell can list them.\n"
        f"The apps:\n{introduced}\n"
        f"When the task is done call {FINISH}; if it was a question, with the answer."
    )
