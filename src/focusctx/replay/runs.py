"""Recorded runs, read from JSONL: one message list a line, bare or as the `messages` (or `input`) of an object.

The folder of a bench run is read too: its records hold the whole history of every task.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

from ..config import FocusConfig
from ..errors import BenchError, MessageError
from ..pipeline.split import read_history
from ..tokens import Counter
from ..types import History, Message
from ..wire import Part, recognise

_FIELDS = ("messages", "input", "contents")
_BENCH_JOB, _BENCH_RECORDS = "run.json", "records.jsonl"
"""The files of a bench run: its settings and its records."""
LONG, SHORT = 4096, 1024
"""The usual δ, and the one for short dialogues."""
Half: TypeAlias = Literal["tuning", "reporting"]
"""Constants are chosen on the tuning half of the runs, figures are published from the reporting half."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run of an agent."""

    file: str
    """The name of its file."""
    id: str
    """The run's own id, or `line 7`; unique in its file."""
    messages: tuple[Message, ...]
    format: str
    """The wire format, by its name."""
    model: str | None = None
    """The model that made it, if the log names one."""

    def __str__(self) -> str:
        return f"{self.file}, {self.id}"

    def history(self, messages: int | None = None) -> History:
        """Return the history in the first `messages` messages, in all of them by default."""
        return read_history(self.messages[:messages], FocusConfig(), count, format=self.format)


def half_of(run: str) -> Half:
    """Return the half that a run belongs to, by a hash of its id: the same in every file, whatever its order."""
    return "reporting" if hashlib.sha256(run.encode()).digest()[0] % 2 else "tuning"


def read_runs(paths: Iterable[Path], limit: int | None = None) -> list[Run]:
    """Read all runs in these files and in the `.jsonl` files of these folders; of each file the first `limit`."""
    files = [file for path in paths for file in _files(path)]
    names = [_name(file) for file in files]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise BenchError(f"two files are named {double}, and records could not tell them apart: rename one")
    return [run for file in files for run in _runs_in(file, limit)]


@cache
def _counter() -> Counter:
    return Counter(room=100_000_000)


def count(text: str) -> int:
    """Return the cl100k tokens of a text, remembered: the same texts come at every step and under every method."""
    return _counter().count(text)


def part_tokens(part: Part) -> int:
    """Return the tokens of one part of a message, as a budget counts them."""
    return sum(map(count, part.counted)) + part.extra_tokens


def budgets_for(runs: Sequence[Run], budget: int | None = None) -> dict[str, int]:
    """Return δ for each file: the given one, else 4096, but 1024 for a file of short dialogues, which would never
    reach that: one in which the user speaks again in most runs, and the median run has fewer than 4096 span tokens."""
    files: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        files[run.file].append(run)
    if budget is not None:
        return dict.fromkeys(files, budget)
    return {file: _fitting([run.history() for run in some]) for file, some in files.items()}


def _fitting(histories: Sequence[History]) -> int:
    dialogues = sum(any(turn.after for turn in history.user_turns) for history in histories)
    size = median(sum(span.tokens for span in history.spans) for history in histories)
    return SHORT if 2 * dialogues > len(histories) and size < LONG else LONG


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        records = path.with_name(f"{path.name}.jsonl")  # RUN/records for RUN/records.jsonl
        return [records if not path.exists() and records.is_file() else path]
    if (path / _BENCH_JOB).is_file() and (path / _BENCH_RECORDS).is_file():
        return [path / _BENCH_RECORDS]  # and not its list of attempts
    found = sorted(path.glob("*.jsonl"))
    if not found:
        raise BenchError(f"there is no .jsonl file in {path}")
    return found


def _name(file: Path) -> str:
    """Return the name of a file in records; those of bench runs are all named alike, so their folder is part of it."""
    return f"{file.absolute().parent.name}-{file.name}" if file.name == _BENCH_RECORDS else file.name


def _runs_in(path: Path, limit: int | None) -> Iterator[Run]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise BenchError(f"{path}: there is no such file; name a JSONL file of message lists") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    seen: set[str] = set()
    places = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in places[:limit]:
        try:
            run = _run(_name(path), number, json.loads(line))
        except (ValueError, RecursionError) as error:
            problem = error.problem if isinstance(error, MessageError) else error
            raise BenchError(
                f"{path} line {number} is not a run: {problem}; a line is a list of messages, or an "
                'object with such a list as its "messages"'
            ) from error
        if run.id in seen:
            run = replace(run, id=f"{run.id} (line {number})")
        seen.add(run.id)
        yield run


def _run(file: str, number: int, value: Any) -> Run:
    given = value if isinstance(value, Mapping) else {}
    messages = next((given[field] for field in _FIELDS if field in given), value)
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise ValueError("not a list of messages")
    name = given.get("id")
    if name is None and {"task", "variant"} <= given.keys():  # a record of the bench
        name = f"{given['task']}, {given['variant']}"
    run = Run(
        file=file,
        id=str(name) if isinstance(name, str | int) else f"line {number}",
        messages=tuple(messages),
        format=recognise(messages).name,
        model=model if isinstance(model := given.get("model"), str) and model else None,
    )
    run.history()  # what cannot be read shows here, not in the middle of a replay
    return run
