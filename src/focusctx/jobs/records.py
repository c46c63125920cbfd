"""The folder of a job: one JSON file that says what it is about, and files of records, one JSON object per line.

Lines are only ever added, each whole.

A process that is killed while it writes leaves half a line at the end: readers skip it, and the next writer removes it.
Files whose name ends in `.gz` are packed; they can be read, but not added to.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, ClassVar, Generic, Protocol, Self, TypeVar

from ..errors import BenchError

Key = tuple[str | int, ...]
"""Tells a record from all others of its kind."""

PACKED = ".gz"
LOCK = ".lock"


class Record(Protocol):
    @property
    def key(self) -> Key: ...

    def to_json(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Record)


class PlainRecord:
    """Base of records that are dataclasses of JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**data)


class RecordFile(Generic[R]):
    """Reads records one at a time and adds new ones. A file that is missing holds none."""

    def __init__(self, path: Path, read: Callable[[dict[str, Any]], R]) -> None:
        packed = path.with_name(f"{path.name}{PACKED}")
        self.path = packed if packed.exists() and not path.exists() else path
        self._read = read

    def __iter__(self) -> Iterator[R]:
        if not self.path.exists():
            return
        with _opened(self.path) as file:
            for number, line in enumerate(file, 1):
                try:
                    if line.strip():
                        yield self._read(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    if not line.endswith("\n"):
                        return  # cut short by a kill
                    raise BenchError(f"{self.path} line {number} is not a record of this command: {error!r}") from error

    def latest(self) -> dict[Key, R]:
        """Return all records by key. Of records that were made again, the last one counts."""
        return {record.key: record for record in self}

    def prepare(self) -> None:
        """Make the file ready to be added to: create its folder, and remove half a line at its end."""
        if self.path.suffix == PACKED:
            raise BenchError(
                f"{self.path} is packed and cannot be appended to: unpack it with gunzip, or use another folder"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            return
        with self.path.open("rb+") as file:
            if not file.seek(0, os.SEEK_END):
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) == b"\n":
                return
            file.seek(0)
            text = file.read()
            whole = text.rfind(b"\n") + 1
            try:
                json.loads(text[whole:])
            except ValueError:
                file.truncate(whole)
            else:
                file.write(b"\n")

    def add(self, *records: R) -> None:
        """Add records, in one write, and wait until they are on disk."""
        lines = [json.dumps(record.to_json(), ensure_ascii=False, separators=(",", ":")) for record in records]
        self.prepare()
        with self.path.open("ab", buffering=0) as file:
            # A lone surrogate, legal in JSON, is written as the escape it was read from.
            file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
            os.fsync(file.fileno())


def _opened(path: Path) -> IO[str]:
    if path.suffix == PACKED:
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


class JobFolder:
    """A folder whose job is described in the file `about`."""

    def __init__(self, path: Path, about: str) -> None:
        self.path = path
        self.about_path = path / about

    def read_about(self) -> dict[str, Any]:
        """Return the description of the folder's job; {} if none was begun."""
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
