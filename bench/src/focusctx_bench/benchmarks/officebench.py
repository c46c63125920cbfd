"""OfficeBench (zlwang-cs/OfficeBench): office work over word, excel, calendar, email, pdf, ocr and shell apps.

The checkout's own apps and evaluators run, in their own interpreter and without docker: every task has a folder of
its own, which a sandbox shows as /testbed. Through one of two programs, what runs in a sandbox sees /testbed and
/apps though they lie elsewhere. Both give it a root of its own, with the system's programs and the task's folder,
without the user's home. Bubblewrap lets it write nothing but the task's folder, and gives it no network. PRoot only
changes paths: nothing is shut in.

    python=PATH         an interpreter with what the apps need; the checkout's .venv unless given
    sandbox=bwrap       bubblewrap shuts the agent's shell in: no network, nothing of the machine can be written
    sandbox=proot       where bubblewrap is not allowed: paths are mapped, nothing is shut in
    splits=FILE         JSON, split names to lists of task ids: splits that the checkout does not name
    llm=MODEL           who answers in OfficeBench's llm app; without it the app is not offered
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, ConfigError

from ..protocols import Model, Options, Score, Task, ToolCall, tool_definition
from ..spending import environment_model
from .worker import SERVING, Worker

SWITCH = "switch_app"
FINISH = "finish_task"

_PARAMETER = re.compile(r"'(\w+)': \[([A-Z_]+)\]")
_INSIDE = Path(__file__).with_name("inside") / "officebench.py"
_OURS = {"/.focusctx/serving.py": SERVING, "/.focusctx/inside.py": _INSIDE}
_LLM = "llm"
_SECONDS = 60.0
"""For a command. OfficeBench gives 10, too few for LibreOffice on a busy machine."""
VARIABLE = "FOCUSCTX_OFFICEBENCH"
_HOW = (
    f"git clone https://github.com/zlwang-cs/OfficeBench, then name the folder as the benchmark's data or in {VARIABLE}"
)
_NEEDED = ("apps/__init__.py", "utils/evaluate.py", "tasks")
_ID = re.compile(r"(?P<apps>\d+)-(?P<task>\d+)-(?P<subtask>\d+)")
PYTHON = "FOCUSCTX_OFFICEBENCH_PYTHON"
_SYSTEM = ("/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/var/lib/libreoffice")
_WHERE = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix]))"
_INSTALL = {
    "bwrap": "install bubblewrap (Debian: apt-get install bubblewrap), or choose --set sandbox=proot",
    "proot": "install proot (Debian: apt-get install proot), or choose --set sandbox=bwrap",
}
_REFUSED = (
    "does not work on this machine; in a container that forbids it, --set sandbox=proot maps the paths too, but shuts "
    "nothing in: the agent's shell then works on the container itself"
)


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


_ANSWER = {"answer": {"type": "string", "description": "if the task is a question"}}
FINISH_TOOL = tool_definition(FINISH, "The task is done.", _ANSWER, optional=_ANSWER)


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
        self.llm = llm
        self._apps: Mapping[str, Any] = {}
        self._describing = asyncio.Lock()

    def tasks(self) -> Sequence[Task]:
        return self._checkout.tasks(*self._split)

    async def start(self, task: Task) -> OfficeBenchTask:
        apps = await self._described()
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="focusctx-officebench-"))
        try:
            testbed = await asyncio.to_thread(self._checkout.lay_out, task.id, folder)
            return OfficeBenchTask(self, folder, testbed, self._checkout.config(task.id), apps)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def worker(self, folder: Path, changing: Mapping[str, Path], *, judging: bool = False) -> Worker:
        """Start a program in a sandbox of its own, in which these folders may be changed; its root lies in `folder`."""
        shown = {name: self._checkout.root / name[1:] for name in ("/apps", "/utils") if judging or name == "/apps"}
        program = [self._sandbox.python, *_OURS]
        (root := folder / "root").mkdir(exist_ok=True)
        command = self._sandbox.command(program, root, {**shown, **_OURS}, changing)
        return Worker("OfficeBench", command, self._sandbox.environment)

    async def _described(self) -> Mapping[str, Any]:
        """Return the apps' own descriptions, asked once."""
        async with self._describing:
            if not self._apps:
                with tempfile.TemporaryDirectory(prefix="focusctx-officebench-") as folder:
                    worker = self.worker(Path(folder), {})
                    try:
                        described = await worker.call("describe", {})
                    finally:
                        await asyncio.to_thread(worker.close)
                self._apps = {name: app for name, app in described.items() if name != _LLM or self.llm}
        return self._apps


class OfficeBenchTask:
    """One task, under way."""

    def __init__(
        self, owner: OfficeBench, folder: Path, testbed: Path, config: Mapping[str, Any], apps: Mapping[str, Any]
    ) -> None:
        self._owner = owner
        self._folder = folder
        self._testbed = testbed
        self._config = config
        self._apps = apps
        self._app = ""
        self._over = False
        self._worker = self._open()
        self.system = _system(config, apps)
        self.task = str(config["task"])

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools of the open app, as OfficeBench shows them, and two that are always there."""
        others = {"target_app": {"type": "string", "enum": [name for name in self._apps if name != self._app]}}
        told = "Open an app: its actions become your tools, those of the last one go."
        actions = [action.definition() for action in self._actions().values()]
        return [*actions, tool_definition(SWITCH, told, others), FINISH_TOOL]

    async def act(self, call: ToolCall) -> str:
        if call.name == SWITCH:
            app = str(call.arguments.get("target_app"))
            if app not in self._apps:
                return f"Error: there is no app {app!r}. Apps: {', '.join(self._apps)}."
            self._app = app
            return f"Switched to {app}. Its tools: {', '.join(self._actions())}."
        if call.name == FINISH:
            said = await self._inside("finish", answer=str(call.arguments.get("answer")))
            self._over = not said.startswith("Error:")
            return said
        action = self._actions()[call.name]
        if action.app == _LLM and self._owner.llm:
            prompt = {"role": "user", "content": str(call.arguments.get("prompt"))}
            return (await self._owner.llm.answer([prompt], ())).text
        told = {"arguments": dict(call.arguments), "seconds": _SECONDS}
        return await self._inside("act", app=action.app, file=action.file, **told)

    async def hear(self, text: str) -> str | None:  # noqa: ARG002
        return f"Nobody reads this. Call a tool; when the task is done, call {FINISH}."

    def is_over(self) -> bool:
        return self._over

    async def score(self) -> Score:
        """Judge in another sandbox: the agent could not see the answers, and cannot meddle with the judges."""
        await asyncio.to_thread(self._worker.close)
        changing = {"/testbed": self._testbed, "/task": self._folder}
        judges = self._owner.worker(self._folder, changing, judging=True)
        inside = Path("/task") / self._testbed.relative_to(self._folder)
        try:
            checks = await judges.call("evaluate", {"testbed": str(inside), "evaluation": self._config["evaluation"]})
        finally:
            await asyncio.to_thread(judges.close)
        failed = [check for check in checks if not check["passed"]]
        return Score(float(not failed), {"checks": len(checks), "failed_checks": len(failed), "failed": failed})

    async def close(self) -> None:
        await asyncio.to_thread(self._worker.close)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _actions(self) -> dict[str, Any]:
        return actions_of(self._app, self._apps[self._app]) if self._app else {}

    async def _inside(self, do: str, **arguments: Any) -> str:
        """Work in the sandbox: out here, a link among the agent's files could lead anywhere."""
        try:
            return str(await self._worker.call(do, arguments))
        except BenchError:
            if self._worker.is_alive:
                raise
            self._worker = self._open()
            return "Error: this ended all programs, the one that runs your actions too. It was started again."

    def _open(self) -> Worker:
        return self._owner.worker(self._folder, {"/testbed": self._testbed})


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


@dataclass(frozen=True, slots=True)
class Checkout:
    """The user's checkout of OfficeBench, with its 300 tasks."""

    root: Path

    @classmethod
    def of(cls, options: Options) -> Checkout:
        told = options.data or os.environ.get(VARIABLE)
        if not told:
            raise BenchError(f"OfficeBench was not found: {_HOW}")
        root = Path(told).absolute()
        if missing := [name for name in _NEEDED if not (root / name).exists()]:
            raise BenchError(f"{root} is not a checkout of OfficeBench ({missing[0]} is missing): {_HOW}")
        return cls(root)

    def tasks(self, split: str, splits: Path | None) -> list[Task]:
        """Return the tasks with `1`, `2` or `3` apps, all for none; or a name that the file of splits knows."""
        files = (self.root / "tasks").glob("*/subtasks/*.json")
        found = sorted((_number(f"{file.parents[1].name}-{file.stem}"), file) for file in files)
        tasks = [Task("-".join(map(str, number)), f"{number[0]} app{'s'[: number[0] - 1]}") for number, _ in found]
        if splits is not None:
            return _listed(tasks, split, splits)
        if split not in ("", "all", "1", "2", "3"):
            raise ConfigError(
                f"OfficeBench has no split {split!r}: it has all, 1, 2 and 3 (by the number of apps). The split of the "
                "ACON and FOCUS papers is not part of it: --set splits=FILE names a JSON file with its task ids"
            )
        return [task for task in tasks if split in ("", "all") or task.id.startswith(f"{split}-")]

    def config(self, task: str) -> Mapping[str, Any]:
        apps, number, subtask = _number(task)
        path = self.root / "tasks" / f"{apps}-{number}" / "subtasks" / f"{subtask}.json"
        return dict(json.loads(path.read_bytes()))

    def lay_out(self, task: str, folder: Path) -> Path:
        """Lay out fresh files as the evaluators' relative paths expect them; return the part that the agent changes.

        It lies four folders below `folder`, which holds the answers and the first state.
        """
        apps, number, subtask = _number(task)
        source = self.root / "tasks" / f"{apps}-{number}"
        testbed = folder / "outputs" / str(subtask) / "run" / "testbed"
        if (source / "testbed").is_dir():
            shutil.copytree(source / "testbed", testbed)
        for name in ("data", "emails", "calendar"):
            (testbed / name).mkdir(parents=True, exist_ok=True)
        shutil.copytree(testbed, folder / "cache" / str(subtask) / "testbed")
        if (source / "reference").is_dir():
            shutil.copytree(source / "reference", folder / "reference")
        return testbed


def _number(task: str) -> tuple[int, int, int]:
    if not (match := _ID.fullmatch(task)):
        raise BenchError(f"{task!r} is not a task of OfficeBench: tasks are named like 1-11-0")
    return int(match["apps"]), int(match["task"]), int(match["subtask"])


def _listed(tasks: list[Task], split: str, splits: Path) -> list[Task]:
    try:
        wanted = set(json.loads(splits.read_bytes())[split])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{splits} has no list of tasks for the split {split!r}: {error!r}") from error
    if unknown := wanted - {task.id for task in tasks}:
        raise ConfigError(f"{splits}: OfficeBench has no task {min(unknown)!r}; they are named like 1-11-0")
    return [task for task in tasks if task.id in wanted]


@dataclass(frozen=True)
class Sandbox:
    """A program's own root, in which folders of ours stand at other paths."""

    kind: str
    python: str
    """The interpreter inside …"""
    roots: tuple[Path, ...]
    """… and the folders it consists of."""

    @classmethod
    def of(cls, options: Options, checkout: Checkout) -> Sandbox:
        kind = options.more.get("sandbox", "bwrap")
        if kind not in _INSTALL:
            raise ConfigError(f"no sandbox {kind!r} for OfficeBench: bwrap or proot")
        if shutil.which(kind) is None:
            raise BenchError(f"OfficeBench runs its tasks in a sandbox: {_INSTALL[kind]}")
        default = checkout.root / ".venv" / "bin" / "python"
        told = options.more.get("python") or os.environ.get(PYTHON) or str(default)
        try:
            found = subprocess.run([told, "-c", _WHERE], capture_output=True, text=True, check=True, timeout=60)
            executable, *prefixes = json.loads(found.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise BenchError(
                f"OfficeBench has no interpreter at {told}: make one that has what its apps need (docs/bench.md lists "
                f"it) at {default}, or name one (--set python=PATH or {PYTHON})"
            ) from error
        return cls(kind, executable, tuple({Path(prefix): None for prefix in prefixes}))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a program inside, without the user's keys and tokens."""
        path = f"{Path(self.python).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8"}

    def command(
        self, program: Sequence[str], root: Path, shown: Mapping[str, Path], changing: Mapping[str, Path]
    ) -> list[str]:
        """Return the command that runs `program`, which sees folders of ours at other paths: to read, and to change.

        `root` is an empty folder, for this program alone.
        """
        if self.kind == "proot":
            return [*self._proot(root), *_pairs({**changing, **shown}), *program]
        return [*self._bwrap, *_bound("--bind", changing), *_bound("--ro-bind", shown), *program]

    def _proot(self, root: Path) -> list[str]:
        (root / "tmp").mkdir(exist_ok=True)
        there = {name: Path(name) for name in (*_SYSTEM, "/proc", "/dev") if Path(name).exists()}
        return ["proot", "-r", str(root), *_pairs({**there, **self._interpreter}), "-w", "/"]

    @cached_property
    def _bwrap(self) -> list[str]:
        """The beginning of each command, tried once. Raises BenchError where it does not work."""
        system = [part for name in _SYSTEM for part in _shown(Path(name))]
        shut_in = ["--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"]
        fresh = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"]
        command = ["bwrap", *shut_in, *system, *fresh, *_bound("--ro-bind", self._interpreter)]
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False, timeout=60)
        if tried.returncode:
            trouble = tried.stderr.strip() or f"exit status {tried.returncode}"
            raise BenchError(f"bubblewrap {_REFUSED} ({trouble})")
        return command

    @property
    def _interpreter(self) -> dict[str, Path]:
        return {str(root): root for root in self.roots if not root.is_relative_to("/usr")}


def _bound(how: str, places: Mapping[str, Path]) -> list[str]:
    return [part for target, source in places.items() for part in (how, str(source), target)]


def _pairs(places: Mapping[str, Path]) -> list[str]:
    return [part for target, source in places.items() for part in ("-b", f"{source}:{target}")]


def _shown(path: Path) -> list[str]:
    """Show a part of the system, to read; a link stays a link."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []
