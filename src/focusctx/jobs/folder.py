"""The folder of a job: one JSON file that says what it is about, and files of records beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BenchError

LOCK = ".lock"


class JobFolder:
    """A folder whose job is described in the file `about`."""

    def __init__(self, path: Path, about: str) -> None:
        self.path = path
        self.about_path = path / about

    def read_about(self) -> dict[str, Any]:
        """Return what the folder is about; {} where nothing was begun."""
        if not self.about_path.exists():
            return {}
        try:
            about = json.loads(self.about_path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BenchError(f"{self.about_path} cannot be read: {error}") from error
        if not isinstance(about, dict):
            raise BenchError(f"{self.about_path} does not describe a job; choose another --out")
        return about

    def write_about(self, about: Mapping[str, Any]) -> None:
        """Replace the description, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        unfinished = self.about_path.with_name(f"{self.about_path.name}.tmp")
        unfinished.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(self.about_path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time work in the folder. The lock of a killed process is gone with it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as file:
            _lock(file.fileno(), self.path)
            yield


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no flock: there, do not run two commands in one folder
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BenchError(f"another command is writing to {path}; wait for it, or choose another --out") from error
