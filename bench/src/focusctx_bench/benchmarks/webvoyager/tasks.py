"""The public task file: JSON lines of `web_name`, `id`, `ques` and `web`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from focusctx.errors import BenchError, ConfigError

from ...protocols import Options, Task
from .window import is_web

VARIABLE = "FOCUSCTX_WEBVOYAGER"
STEPS = 15
"""The most that a run of the paper took."""

_FILE = "data/WebVoyager_data.jsonl"
_FIELDS = ("web_name", "id", "ques", "web")
_HOW = (
    "git clone https://github.com/MinorJerry/WebVoyager, then name the folder, or a file of the same form as its "
    f"{_FILE}, as the benchmark's data or in {VARIABLE}"
)


def tasks_from(options: Options) -> Sequence[Task]:
    """All, or those of one website, whose name is the split."""
    told = options.data or os.environ.get(VARIABLE)
    if not told:
        raise BenchError(f"WebVoyager's tasks were not found: {_HOW}")
    path = Path(told) / _FILE if Path(told).is_dir() else Path(told)
    if not path.is_file():
        raise BenchError(f"there is no {path}: {_HOW}")
    lines = path.read_text(encoding="utf-8").splitlines()
    tasks = [_task(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if len({task.id for task in tasks}) < len(tasks):
        raise BenchError(f"{path} has two tasks of the same id")
    sites = list(dict.fromkeys(task.data["web_name"] for task in tasks))
    if options.split not in ("", "all", *sites):
        raise ConfigError(f"WebVoyager has no split {options.split!r}: it has all, and by website {', '.join(sites)}")
    return [task for task in tasks if options.split in ("", "all", task.data["web_name"])]


def _task(line: str, where: str) -> Task:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BenchError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(row, dict) or not all(isinstance(row.get(field), str) for field in _FIELDS):
        raise BenchError(f"{where} needs the texts {', '.join(_FIELDS)}")
    if not is_web(row["web"]):
        raise BenchError(f"{where}: {row['web']!r} is not an http or https address")
    return Task(row["id"], data={field: row[field] for field in _FIELDS}, step_limit=STEPS)
