"""Requirements of a task: the user's checkout, its version, its data, its interpreter."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusctx.errors import BenchError, ConfigError

from ...protocols import Options
from .airline_db import rebuild

DOMAINS = ("retail", "airline", "telecom")
VARIABLE, PYTHON, TAU_BENCH = "FOCUSCTX_TAU2", "FOCUSCTX_TAU2_PYTHON", "FOCUSCTX_TAU_BENCH"
KNOWN = "1."
"""Versions that begin so have the classes that `inside.py` works with."""

_HOW = (
    "git clone https://github.com/sierra-research/tau2-bench, then `uv sync` in it, then name the folder by --data "
    f"or in {VARIABLE} (tau2 on PyPI is another program)"
)
_DATABASES = {"retail": "db.json", "airline": "db.json", "telecom": "db.toml"}


@dataclass(frozen=True, slots=True)
class Checkout:
    root: Path
    python: Path
    domain: str

    @classmethod
    def of(cls, options: Options) -> Checkout:
        domain = options.more.get("domain", "")
        if domain not in DOMAINS:
            raise ConfigError(f"τ²-bench needs --set domain=retail, airline or telecom, got {domain or 'none'!r}")
        root = Path(options.data or _told(options, "", VARIABLE, f"τ²-bench was not found: {_HOW}")).absolute()
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
            told = _told(
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


def _told(options: Options, name: str, variable: str, otherwise: str) -> str:
    told = options.more.get(name) or os.environ.get(variable)
    if not told:
        raise BenchError(otherwise)
    return told
