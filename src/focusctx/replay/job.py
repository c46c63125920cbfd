"""A replay as a job: recorded runs under methods, then the comparators that get as many tokens as FOCUS left.

The caller decides whether a record covers a whole run (`walk.py`) or one point of it (in focusctx-bench). Comparators
need no model, so they are spread over the cores, whatever draft sketched.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from ..baselines.drafts import PATIENCE, patient
from ..config import FocusConfig
from ..drafts.anthropic import AnthropicDraft
from ..drafts.openai_compatible import OpenAICompatibleDraft
from ..errors import DraftError
from ..jobs.engines import Engine, InProcess, Work, engine_named, on_cores
from ..jobs.records import Key, RecordFile
from ..jobs.runner import Runner, Tally, Watch
from ..pipeline.draft import build_prompt, sample
from ..pipeline.split import read_history
from ..tokens import Counter
from ..types import Message
from .comparators import COMPARATORS
from .methods import FOCUS, ReplaySettings
from .record import ReplayRecord, settings_text
from .runs import Run

SIDE_BY_SIDE = 64
"""Runs that wait for a model at once: a local model answers many prompts in one batch."""
_PROBE_RETRIES = 3
"""Fewer retries than in a job: a server counts as down after seconds, not minutes."""

_SMALL_TALK: list[Message] = [
    {"role": "user", "content": "Greet Ann, then greet Bob."},
    {"role": "assistant", "content": "Good morning, Ann."},
    {"role": "user", "content": "Go on."},
]

R = TypeVar("R", bound=ReplayRecord)


class RunItem(Protocol):
    """An item about one run."""

    @property
    def run(self) -> Run: ...


I = TypeVar("I", bound=RunItem)  # noqa: E741


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay: runs, settings, and where it is done."""

    settings: ReplaySettings
    runs: Sequence[Run]
    budgets: Mapping[str, int]
    """δ, for each file."""
    engine: str = "local"
    jobs: int | None = None
    """Processes; runs at once, where a model is asked."""


@dataclass(frozen=True, slots=True)
class Match(Generic[R]):
    """One record of FOCUS, and the comparators that are still to get as many tokens as it left."""

    focus: R
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompareItem(Generic[R]):
    """One run, with what FOCUS left in it."""

    run: Run
    matches: tuple[Match[R], ...]

    def __str__(self) -> str:
        return str(self.run)


@dataclass(slots=True)
class ReplayTally(Tally):
    """Progress of a replay: runs by file, and the events of this sitting that failed."""

    events: int = 0
    """Failed ones included."""
    events_failed: int = 0
    why: str = ""
    """Why the last of them failed."""
    unanswered: int = 0
    """Failed events at which a model gave no answer: the same command asks it again."""

    def count(self, record: ReplayRecord) -> None:
        """Count the events of a record. Those of rules, which ask no model, only count if they failed."""
        if not record.failures and ("@" in record.method or not record.draft):
            return
        self.events += record.failures + record.events
        self.events_failed += record.failures
        self.unanswered += record.unanswered
        self.why = record.failure or self.why


class Replay(Generic[R]):
    """Runs the items of a replay and keeps their records."""

    def __init__(self, plan: Plan, records: RecordFile[R], watch: Watch) -> None:
        self.tally = ReplayTally()
        self._plan = plan
        self._records = records
        self._watch = watch

    def done(self) -> defaultdict[tuple[str, str], set[Key]]:
        """Return the keys of the records that need not be made again, by run."""
        found: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        for record in self._records.latest().values():
            if not record.unanswered:
                found[record.file, record.run].add(record.key)
        return found

    def probe(self, methods: Iterable[str]) -> None:
        """Ask the models that these methods need one small question; not for a cluster, which may reach others."""
        if self._plan.engine == "local":
            models = filter(None, map(self._plan.settings.model_of, methods))
            asyncio.run(probe_drafts(dict.fromkeys(models)))

    def run(self, work: Work[I, R], items: Sequence[I], is_done: Callable[[I], bool] = lambda _: False) -> None:
        """Replay items under their methods."""
        plan, todo = self._plan, sum(not is_done(item) for item in items)
        if plan.engine == "local" and not plan.settings.computes:
            engine: Engine = InProcess(plan.jobs or SIDE_BY_SIDE)
        else:
            engine = self._engine(todo, plan.jobs)
        self._run(engine, work, items, lambda item: item.run.file, is_done)

    def compare(self, work: Work[CompareItem[R], R]) -> None:
        """Let comparators replay what FOCUS left in these runs, if they are wanted."""
        plan = self._plan
        if not plan.settings.matched:
            return
        known: defaultdict[tuple[str, str], list[R]] = defaultdict(list)
        for record in self._records.latest().values():
            known[record.file, record.run].append(record)
        every = [CompareItem(run, matches_in(plan.settings, known[run.file, run.id])) for run in self._chat_runs()]
        items = [item for item in every if item.matches]
        engine = self._engine(len(items), plan.jobs if plan.settings.computes else None)
        self._run(engine, work, items, lambda item: f"{item.run.file}, matched", lambda _: False)

    def _chat_runs(self) -> list[Run]:
        """Return the runs that comparators can read."""
        return [run for run in self._plan.runs if run.format == "chat_completions"]

    def _engine(self, items: int, jobs: int | None) -> Engine:
        return on_cores(items, jobs) if self._plan.engine == "local" else engine_named(self._plan.engine)

    def _run(
        self,
        engine: Engine,
        work: Work[I, R],
        items: Sequence[I],
        part: Callable[[I], str],
        is_done: Callable[[I], bool],
    ) -> None:
        # The longest first, so that no process ends alone.
        ordered = sorted(items, key=lambda item: -len(item.run.messages))
        tally, watch = self.tally, self._watch
        Runner(engine, work, self._keep, part=part, is_done=is_done, tally=tally, watch=watch).run_all(ordered)

    def _keep(self, records: Sequence[R]) -> None:
        self._records.add(*records)
        for record in records:
            self.tally.count(record)


def matches_in(settings: ReplaySettings, records: Sequence[R]) -> tuple[Match[R], ...]:
    """Return what FOCUS left in one run, as far as comparators still lack records.

    `records` are all there are of the run. Comparators wait where the draft is to be asked again.
    """
    done = {record.key for record in records if not record.unanswered}
    found = []
    for focus in records:
        if focus.method in FOCUS and not focus.unanswered:
            names = [name for name in COMPARATORS if _matched_key(settings, focus, name) not in done]
            found.append(Match(focus, tuple(names)))
    return tuple(match for match in found if match.names)


def matched_fields(settings: ReplaySettings, focus: ReplayRecord, name: str) -> dict[str, Any]:
    """Return the fields that a comparator's record takes from the record of FOCUS, and its own method."""
    own = {"embedder": settings.embedder} if name == "retrieval" else {}
    return {
        "method": f"{name}@{focus.method}",
        "draft": focus.draft,
        "budget": focus.budget,
        "settings": {**own, **focus.settings},
    }


def _matched_key(settings: ReplaySettings, focus: ReplayRecord, name: str) -> Key:
    fields = matched_fields(settings, focus, name)
    return *focus.key[:-4], fields["method"], focus.draft, focus.budget, settings_text(fields["settings"])


async def probe_drafts(drafts: Iterable[str]) -> None:
    """Ask each draft for one small sketch. Raises a `DraftError` with the error of the server or the network.

    Models in this process are not asked: they are loaded when they are needed, and only once.
    """
    config = FocusConfig()
    prompt = build_prompt(read_history(_SMALL_TALK, config, Counter().count), config)
    for name in dict.fromkeys(drafts):
        draft = patient(name)
        if not isinstance(draft, OpenAICompatibleDraft | AnthropicDraft):
            continue
        draft.endpoint = replace(draft.endpoint, retries=_PROBE_RETRIES)
        replies, problem = await sample(draft, prompt, 1, PATIENCE)
        if not replies:
            raise DraftError(f"{name}: {problem or 'the server sent no answer'}")
