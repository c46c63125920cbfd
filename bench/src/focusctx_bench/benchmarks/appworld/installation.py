"""Requirements of a task: an interpreter with AppWorld, and the task data."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from focusctx.errors import BenchError, ConfigError

from ...protocols import Options, Task

VARIABLE, PYTHON = "FOCUSCTX_APPWORLD", "FOCUSCTX_APPWORLD_PYTHON"
DIFFICULTIES = {1: "easy", 2: "medium", 3: "hard"}
"""As the paper names AppWorld's levels."""

_ENGINE = "python3.11 -m venv .venv && .venv/bin/pip install appworld && .venv/bin/appworld install"
_DATA = "`.venv/bin/appworld download data`, run in the folder ROOT, makes ROOT/data"
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Installation:
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
