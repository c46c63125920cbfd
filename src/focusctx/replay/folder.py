"""The folder of a replay: records, and in `replay.json` what they were made from: data, version, commands."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BenchError
from ..jobs.folder import JobFolder
from .runs import Run

ABOUT = "replay.json"


class ReplayFolder(JobFolder):
    def __init__(self, path: Path) -> None:
        super().__init__(path, ABOUT)

    def begin(self, runs: Sequence[Run], command: Sequence[str]) -> None:
        """Begin, or go on over the same data; data of the same name and another content is refused."""
        about = self.read_about()
        data: dict[str, Any] = about.get("data", {})
        for file, digests in _digests(runs).items():
            known = data.setdefault(file, {})
            for run, digest in digests.items():
                if known.setdefault(run, digest) != digest:
                    raise BenchError(
                        f"{self.path} has records of another {file}: run {run!r} has changed. Choose another --out"
                    )
        commands = about.get("commands", [])
        line = {"focusctx": __version__, "python": platform.python_version(), "arguments": list(command)}
        if line not in commands:
            commands = [*commands, line]
        self.write_about({"commands": commands, "data": data})


def _digests(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Return a short checksum of the messages of each run, by file and run."""
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        text = json.dumps(run.messages, sort_keys=True, ensure_ascii=True)
        found.setdefault(run.file, {})[run.id] = hashlib.sha256(text.encode()).hexdigest()[:12]
    return found
