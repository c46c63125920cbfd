"""The record of one run under one method, and the folder of a replay with the file of them.

If a model gave no answer, a later record with the same key replaces the record. Steps are written as plain arrays, to
keep the lines short.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from .. import __version__
from ..errors import BenchError
from ..jobs.records import JobFolder, Key, RecordFile
from ..types import Usage
from .runs import Run

RUNS = "runs.jsonl"
ABOUT = "replay.json"
"""File that says what the records were made from: data, version, commands."""


class ReplayRecord(Protocol):
    """A record of a replay: one run, or one point of a run, under one method."""

    @property
    def file(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def place(self) -> tuple[str, ...]:
        """File and run, and where in the run."""

    @property
    def method(self) -> str: ...
    @property
    def draft(self) -> str: ...
    @property
    def budget(self) -> int: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def key(self) -> Key:
        """The place, then method, draft, budget and settings."""

    @property
    def events(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def unanswered(self) -> int: ...
    @property
    def words_lost(self) -> int: ...
    @property
    def recall(self) -> float | None: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One call of the agent."""

    step: int
    """The span that it made, counted from 1."""
    due: bool
    """True if the full history was over δ, whatever the method."""
    event: bool
    """True if something that had been sent before was not sent again."""
    span_tokens: int
    """Tokens of all spans so far, which compression can touch."""
    span_left: int
    """Tokens of spans in the view, including what a method wrote itself."""
    history_tokens: int
    """Tokens of the whole history, system prompt excluded."""
    sent_tokens: int
    """Tokens of the view, system prompt excluded: `n_i`."""
    needed: int
    """Facts in the action that only past spans gave."""
    there: int
    """Needed facts that are in the view."""
    repeated: bool = False
    """True if the action repeats, word for word, a call that had failed, and fails again."""
    forgotten: bool = False
    """True for such an action if the earlier failure is no longer in the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run under one method."""

    file: str
    run: str
    method: str
    """`focus-d`; `fifo@focus-d` for newest spans that were given as many tokens as focus-d left."""
    draft: str
    """The draft that sketched; "" for methods without one."""
    budget: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the method."""
    steps: tuple[StepRecord, ...]
    events: int
    failures: int
    """Compressions that were due and failed."""
    failure: str | None = None
    """Why the first of them failed."""
    unanswered: int = 0
    """Failures because a model gave no answer; the run will be walked again."""
    words_lost: int
    """Texts of the user or of system prompts that some view lacked; must be 0."""
    floored: int = 0
    """Due steps at which a matched comparator could not go as low as it should have."""
    peak: int
    """`max n_i`."""
    dependency: float
    """`Σ (n_i + 2 n_o)·n_o / 2`."""
    cost: float | None
    """USD of the agent's calls without a provider's cache, sketches not included; None without a price."""
    cost_cached: float | None
    """USD where the provider caches prefixes."""
    usage: Usage
    """Usage of the draft, summariser or embedder."""
    seconds: float
    """Seconds that the method took, over all steps."""

    @property
    def place(self) -> tuple[str, ...]:
        return self.file, self.run

    @property
    def key(self) -> Key:
        return *self.place, self.method, self.draft, self.budget, settings_text(self.settings)

    @property
    def due(self) -> tuple[StepRecord, ...]:
        return tuple(step for step in self.steps if step.due)

    @property
    def recall(self) -> float | None:
        """Share of the facts needed at due steps, action by action, that were in the view."""
        return share_of((step.there, step.needed) for step in self.due)

    @property
    def whole(self) -> float | None:
        """Share of the actions at due steps with needs that had all of them met."""
        return share_of((step.there == step.needed, 1) for step in self.due if step.needed)

    @property
    def span_share(self) -> float | None:
        """Share of the span tokens, over due steps, that was sent."""
        return share_of((step.span_left, step.span_tokens) for step in self.due)

    @property
    def history_share(self) -> float | None:
        """Share of the history's tokens, over due steps, that was sent; system prompt excluded."""
        return share_of((step.sent_tokens, step.history_tokens) for step in self.due)

    @property
    def repeated(self) -> int:
        """Calls at due steps that had failed before, word for word, and failed again."""
        return sum(step.repeated for step in self.due)

    @property
    def forgotten(self) -> int:
        """Repeated failing calls whose earlier failures are not in the view."""
        return sum(step.forgotten for step in self.due)

    @property
    def draft_tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    @property
    def floored_share(self) -> float | None:
        """Share of due steps at which a comparator could not go as low as it should have."""
        return self.floored / len(self.due) if self.due else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "steps": [[*map(int, astuple(step))] for step in self.steps]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunRecord:
        steps = tuple(_step(step) for step in data.pop("steps"))
        return cls(steps=steps, usage=Usage(**data.pop("usage")), **data)


def run_records(folder: Path) -> RecordFile[RunRecord]:
    return RecordFile(folder / RUNS, RunRecord.from_json)


def share_of(parts: Iterable[tuple[int, int]]) -> float | None:
    """Return the share over all (part, whole) pairs together; None if the wholes are 0."""
    some, whole = map(sum, zip(*[(0, 0), *parts], strict=True))
    return some / whole if whole else None


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as part of a key."""
    return json.dumps(settings, sort_keys=True)


def _step(values: list[int]) -> StepRecord:
    flags = {"due", "event", "repeated", "forgotten"}
    names = [one.name for one in fields(StepRecord)]
    named: dict[str, Any] = dict(zip(names, values, strict=True))
    return StepRecord(**named | {name: bool(named[name]) for name in flags})


class ReplayFolder(JobFolder):
    def __init__(self, path: Path) -> None:
        super().__init__(path, ABOUT)

    def begin(self, runs: Sequence[Run], command: Sequence[str]) -> None:
        """Begin, or continue over the same data; data of the same name with other content is refused."""
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
