"""The user's checkout of OfficeBench: its 300 tasks, and the folder in which one of them takes place."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, ConfigError

from ...protocols import Options, Task

VARIABLE = "FOCUSCTX_OFFICEBENCH"
_HOW = (
    f"git clone https://github.com/zlwang-cs/OfficeBench, then name the folder as the benchmark's data or in {VARIABLE}"
)
_NEEDED = ("apps/__init__.py", "utils/evaluate.py", "tasks")
_ID = re.compile(r"(?P<apps>\d+)-(?P<task>\d+)-(?P<subtask>\d+)")


@dataclass(frozen=True, slots=True)
class Checkout:
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
        config: Mapping[str, Any] = json.loads(path.read_bytes())
        return config

    def lay_out(self, task: str, folder: Path) -> Place:
        """Fresh files in the arrangement that the evaluators' relative paths expect."""
        apps, number, subtask = _number(task)
        source = self.root / "tasks" / f"{apps}-{number}"
        place = Place(folder, str(subtask))
        if (source / "testbed").is_dir():
            shutil.copytree(source / "testbed", place.testbed)
        for name in ("data", "emails", "calendar"):
            (place.testbed / name).mkdir(parents=True, exist_ok=True)
        shutil.copytree(place.testbed, folder / "cache" / place.subtask / "testbed")
        if (source / "reference").is_dir():
            shutil.copytree(source / "reference", folder / "reference")
        return place


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one run of a task."""

    folder: Path
    subtask: str

    @property
    def testbed(self) -> Path:
        """The part that the agent changes: four folders below `folder`, where the answers and the first state lie."""
        return self.folder / "outputs" / self.subtask / "run" / "testbed"


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
