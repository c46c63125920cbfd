"""The folder of a replay: its records, and `replay.json` with the data, version and commands behind them."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BenchError
from .record import PointRecord, Records, RunRecord, point_records, run_records
from .runs import Run

ABOUT = "replay.json"


class ReplayFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def runs(self) -> Records[RunRecord]:
        return run_records(self.path)

    @property
    def points(self) -> Records[PointRecord]:
        return point_records(self.path)

    def open(self, runs: Sequence[Run], command: Sequence[str]) -> None:
        """Begin, or continue over the same data; data of the same name but different content is refused."""
        about = self._about()
        data: dict[str, Any] = about.get("data", {})
        for file, now in _digests(runs).items():
            known = data.setdefault(file, {})
            for run, digest in now.items():
                if known.setdefault(run, digest) != digest:
                    raise BenchError(
                        f"{self.path} has records of another {file}: run {run!r} has changed. Choose another --out"
                    )
        commands = about.get("commands", [])
        line = {"focusctx": __version__, "python": platform.python_version(), "arguments": list(command)}
        if line not in commands:
            commands = [*commands, line]
        self.path.mkdir(parents=True, exist_ok=True)
        _write(self.path / ABOUT, {"commands": commands, "data": data})

    def _about(self) -> dict[str, Any]:
        path = self.path / ABOUT
        if not path.exists():
            return {}
        try:
            about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return {"commands": about["commands"], "data": about["data"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"{path} cannot be read: {error!r}") from error


def _digests(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Return a short checksum of the messages, for each file and run."""
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        text = json.dumps(run.messages, sort_keys=True, ensure_ascii=True)
        found.setdefault(run.file, {})[run.id] = hashlib.sha256(text.encode()).hexdigest()[:12]
    return found


def _write(path: Path, about: Mapping[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)
