"""τ²-bench (sierra-research/tau2-bench): an agent serves a customer by the rules of a shop, an airline, a phone
company.

The checkout's own code runs the tools, the simulated customer and the evaluation, in its own interpreter: one
program serves all tasks, and the models it wants are asked here.

    domain=retail | airline | telecom
    user=MODEL          who plays the customer; needed
    judge=MODEL         who judges what was said, where a task wants that; the customer's model unless given
    python=PATH         the checkout's interpreter; its .venv unless given
    tau_bench=FOLDER    a checkout of sierra-research/tau-bench, to rebuild a missing airline/db.json from

Some copies of τ²-bench lack the airline's database. τ²-bench took tau-bench's flights, users and reservations and
changed little: users carry their id, amounts are fractions, one reservation and one flight differ. The outcome is
the very file: its git id is checked.

    python -m focusctx_bench.benchmarks.tau2 TAU_BENCH DB_JSON
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, ConfigError
from focusctx.types import Message, Usage

from ..protocols import Model, Options, Score, Task, ToolCall
from ..spending import environment_model, told_usage
from .worker import SERVING, Worker

_INSIDE = Path(__file__).with_name("inside") / "tau2.py"
_STEPS = 100
"""τ²-bench itself stops after 200 messages, and every turn of the agent is answered by one."""

_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
DOMAINS = ("retail", "airline", "telecom")
VARIABLE, PYTHON, TAU_BENCH = "FOCUSCTX_TAU2", "FOCUSCTX_TAU2_PYTHON", "FOCUSCTX_TAU_BENCH"
KNOWN = "1."
"""Versions that begin so have the classes that `inside/tau2.py` works with."""
_HOW = (
    "git clone https://github.com/sierra-research/tau2-bench, then `uv sync` in it, then name the folder by --data "
    f"or in {VARIABLE} (tau2 on PyPI is another program)"
)
_DATABASES = {"retail": "db.json", "airline": "db.json", "telecom": "db.toml"}
BLOB = "c6a1e817aa9102c5822e83affb3595acbc312701"
"""Git's name of the file in sierra-research/tau2-bench, from its first release to 1.0.1."""
_SOURCES = ("flights", "users", "reservations")


def benchmark(options: Options) -> Tau2:
    options.check("τ²-bench", ("domain", "user", "judge", "python", "tau_bench"))
    return Tau2(Checkout.of(options), lambda: _models(options), options.split)


def _models(options: Options) -> dict[str, Model]:
    if not (user := options.more.get("user")):
        raise ConfigError("τ²-bench needs a model that plays the customer: --set user=openai:gpt-4.1")
    named = {"user": user, "judge": options.more.get("judge") or user}
    return {who: environment_model(name, f"the {who}'s model", seed=options.seed) for who, name in named.items()}


class Tau2:
    name = "tau2"

    def __init__(self, checkout: Checkout, models: Callable[[], Mapping[str, Model]], split: str = "") -> None:
        """`models` gives the `user` and the `judge`; it is asked when the first task starts."""
        self.checkout = checkout
        self._models = models
        self._split = split or "base"
        self._worker: Worker | None = None
        self._runs = itertools.count()

    @cached_property
    def models(self) -> Mapping[str, Model]:
        return self._models()

    def tasks(self) -> Sequence[Task]:
        return [Task(name, step_limit=_STEPS) for name in self.checkout.task_ids(self._split)]

    async def start(self, task: Task) -> Tau2Task:
        conversation = Tau2Task(self.models, self.worker(), f"{os.getpid()}-{next(self._runs)}")
        await conversation.begin(self.checkout.domain, task.id)
        return conversation

    def worker(self) -> Worker:
        """Return the program, started again if it has ended."""
        if self._worker is None or not self._worker.is_alive:
            command = [str(self.checkout.python), str(SERVING), str(_INSIDE)]
            self._worker = Worker("τ²-bench", command, self.checkout.environment(), self.checkout.root)
        return self._worker


class Tau2Task:
    """One task: the agent's tools and the customer."""

    system = ""
    greeting = ""
    task = ""
    tools: Sequence[Mapping[str, Any]] = ()

    def __init__(self, models: Mapping[str, Model], worker: Worker, run: str) -> None:
        self._models = models
        self._worker = worker
        self._run = run
        self._over = False
        self._usage = dict.fromkeys(models, Usage())

    async def begin(self, domain: str, task: str) -> None:
        opening = await self._call("start", domain=domain, task=task)
        self.system, self.task, self.tools = opening["system"], opening["text"], opening["tools"]
        self.greeting = opening["greeting"]

    async def act(self, call: ToolCall) -> str:
        said = await self._call("act", id=call.id, name=call.name, arguments=dict(call.arguments))
        return str(said["text"])

    async def hear(self, text: str) -> str | None:
        said = await self._call("hear", text=text)
        return None if self._over else str(said["text"])

    def is_over(self) -> bool:
        return self._over

    async def score(self) -> Score:
        """Return τ²-bench's reward; the details say what the customer's and the judge's models used."""
        judged = await self._call("score")
        parts = {name.lower(): value for name, value in judged["parts"].items()}
        used: dict[str, float] = {}
        for who, usage in self._usage.items():
            used |= told_usage(who, usage) if usage.requests else {}
        return Score(float(judged["reward"]), {"ended": judged["ended"], **parts, **used})

    async def close(self) -> None:
        if self._worker.is_alive:
            await self._call("close")

    async def _call(self, do: str, **arguments: Any) -> Any:
        said = await self._worker.call(do, {"run": self._run, **arguments}, self._answer)
        self._over = self._over or bool(isinstance(said, dict) and said.get("over"))
        return said

    async def _answer(self, asked: Mapping[str, Any]) -> Message:
        who = asked["who"]
        turn = await self._models[who].answer(asked["messages"], asked["tools"])
        self._usage[who] += turn.usage
        if who == "judge" and (fenced := _FENCE.search(turn.text)):
            return {**turn.message, "content": fenced[1]}
        return turn.message


@dataclass(frozen=True, slots=True)
class Checkout:
    """The user's checkout: its version, its data, its interpreter."""

    root: Path
    python: Path
    domain: str

    @classmethod
    def of(cls, options: Options) -> Checkout:
        domain = options.more.get("domain", "")
        if domain not in DOMAINS:
            raise ConfigError(f"τ²-bench needs --set domain=retail, airline or telecom, got {domain or 'none'!r}")
        root = Path(options.data or _setting(options, "", VARIABLE, f"τ²-bench was not found: {_HOW}")).absolute()
        _check_version(root)
        default = root / ".venv" / "bin" / "python"
        python = Path(options.more.get("python") or os.environ.get(PYTHON) or default)
        if not python.is_file():
            raise BenchError(
                f"τ²-bench has no interpreter at {python}: run `uv sync` in {root}, or name one that has its "
                f"requirements (--set python=PATH or {PYTHON})"
            )
        checkout = cls(root, python, domain)
        checkout._check_data(options)
        return checkout

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def folder(self) -> Path:
        return self.data / "tau2" / "domains" / self.domain

    def task_ids(self, split: str) -> list[str]:
        splits: dict[str, list[str]] = self._read("split_tasks.json")
        if split not in splits:
            raise ConfigError(f"τ²-bench {self.domain} has no split {split!r}; it has {', '.join(splits)}")
        wanted = set(splits[split])
        return [task["id"] for task in self._read("tasks.json") if task["id"] in wanted]

    def environment(self) -> dict[str, str]:
        """Return the program's variables: its own modules, and no price list fetched when it starts."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "TAU2_DATA_DIR": str(self.data),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LOGURU_LEVEL": "ERROR",
        }

    def _check_data(self, options: Options) -> None:
        database = self.folder / _DATABASES[self.domain]
        if self.domain == "airline" and not database.exists():
            told = _setting(
                options,
                "tau_bench",
                TAU_BENCH,
                f"{database} is missing. A full clone of τ²-bench has it; it can also be made from a checkout of "
                f"sierra-research/tau-bench (--set tau_bench=FOLDER or {TAU_BENCH})",
            )
            rebuild(Path(told), database)
        for path in (database, self.folder / "tasks.json", self.folder / "split_tasks.json"):
            if not path.exists():
                raise BenchError(f"{path} is missing: this copy of τ²-bench is not whole; {_HOW}")

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_bytes())


def _check_version(root: Path) -> None:
    try:
        project: Mapping[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError) as error:
        raise BenchError(f"{root} is not a checkout of τ²-bench: {_HOW}") from error
    if project.get("name") != "tau2" or not str(project.get("version")).startswith(KNOWN):
        found = f"{project.get('name')} {project.get('version')}"
        raise BenchError(f"{root} is {found}; this adapter knows tau2 {KNOWN}x: {_HOW}")


def _setting(options: Options, name: str, variable: str, otherwise: str) -> str:
    told = options.more.get(name) or os.environ.get(variable)
    if not told:
        raise BenchError(otherwise)
    return told


def rebuild(tau_bench: Path, target: Path) -> None:
    """Write the airline's database. Raises BenchError, and writes nothing, unless it is the file that τ²-bench has."""
    folder = tau_bench / "tau_bench" / "envs" / "airline" / "data"
    try:
        flights, users, reservations = (json.loads((folder / f"{name}.json").read_bytes()) for name in _SOURCES)
        flights["HAT018"]["dates"]["2024-05-11"] = {
            "status": "delayed",
            "estimated_departure_time_est": "2024-05-11T16:30:00",
            "estimated_arrival_time_est": "2024-05-11T19:05:00",
        }
        reservations["Z7GOZK"] |= {"destination": "IAH", "flight_type": "round_trip"}
        for name, flight in flights.items():
            flights[name] = _first(flight, "origin", "destination", "flight_number")
        for name, user in users.items():
            for key, method in user["payment_methods"].items():
                if "amount" in method:
                    method["amount"] = float(method["amount"])
                user["payment_methods"][key] = _first(method, "source", "id")
            users[name] = {"user_id": name, **user}
        database = {"flights": flights, "users": users, "reservations": reservations}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(
            f"{tau_bench} is not a checkout of tau-bench ({error!r}): git clone https://github.com/sierra-research/tau-bench"
        ) from error
    content = json.dumps(database, indent=4).encode()
    if (blob := git_id(content)) != BLOB:
        raise BenchError(f"{tau_bench} has other airline data than τ²-bench was made from: {blob}, not {BLOB}")
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    unfinished.write_bytes(content)
    unfinished.replace(target)


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _first(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the entry with these fields in front."""
    return {**{name: entry[name] for name in names}, **entry}


if __name__ == "__main__":
    rebuild(Path(sys.argv[1]), Path(sys.argv[2]))
