"""Walk through recorded runs step by step, under methods, as if the agent had used them.

Before every recorded turn the method gets the history so far and says what to send. The facts that the recorded action
needed are then looked for in that view.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from ..baselines.method import Compressed, Method
from ..jobs.engines import Meter
from ..jobs.records import RecordFile
from ..jobs.runner import Watch
from ..prices import Price, price_of
from ..types import History, Message, Usage
from ..wire import wire_named
from .comparators import comparator
from .facts import Evidence, RecordedAction
from .job import CompareItem, Plan, Replay, ReplayTally, matched_fields
from .methods import Methods, ReplaySettings, close_method
from .record import RunRecord, StepRecord
from .runs import Run, part_tokens

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class WalkItem:
    """One run, and the methods under which it has not been walked yet."""

    run: Run
    budget: int
    methods: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.run)


@lru_cache(maxsize=1)
def _methods(settings: ReplaySettings) -> Methods:
    """Return this process's methods; drafts and embedders are loaded once."""
    return Methods(settings)


def walk_all(plan: Plan, records: RecordFile[RunRecord], watch: Watch) -> ReplayTally:
    """Walk through all runs that have no record yet.

    Raises a `DraftError` if a model that will be needed does not answer a first small question.
    """
    replay = Replay(plan, records, watch)
    done = replay.done()
    settings = plan.settings
    items = []
    for run in plan.runs:
        place, budget = (run.file, run.id), plan.budgets[run.file]
        keys = {name: (*place, *settings.key_of(name, budget)) for name in settings.methods}
        methods = tuple(name for name, key in keys.items() if key not in done[place])
        items.append(WalkItem(run, budget, methods))
    replay.probe(name for item in items for name in item.methods)
    replay.run(partial(walk_item, settings), items, is_done=lambda item: not item.methods)
    replay.compare(partial(compare_walks, settings))
    return replay.tally


async def walk_item(settings: ReplaySettings, item: WalkItem, _: Meter) -> list[RunRecord]:
    """Walk through one run under each method."""
    walker = Walker(Evidence(item.run), item.budget, price_of(settings.model))
    records = []
    for name in item.methods:
        method = _methods(settings).make(name, item.run, item.budget)
        record = await walker.walk(method, settings.draft_of(name), settings.settings_of(name))
        records.append(record if settings.can_ask_again(name) else replace(record, unanswered=0))
        close_method(method)
    return records


async def compare_walks(settings: ReplaySettings, item: CompareItem[RunRecord], _: Meter) -> list[RunRecord]:
    """Walk through one run under comparators, each with as many tokens at every step as FOCUS left there."""
    evidence = Evidence(item.run)
    found = []
    for match in item.matches:
        focus = match.focus
        walker = Walker(evidence, focus.budget, price_of(settings.model))
        quotas = {step.step - 1: step.span_left for step in focus.due}
        for name in match.names:
            method = comparator(name, focus.method, quotas, _methods(settings).embed)
            record = await walker.walk(method)
            fields = matched_fields(settings, focus, name)
            found.append(replace(record, **fields, floored=len(method.floored)))
    return found


class Walker:
    """Walks through one run, under one method after the other."""

    def __init__(self, evidence: Evidence, budget: int, price: Price | None) -> None:
        self._evidence = evidence
        self._budget = budget
        self._price = price
        self._views = Views(evidence.history, evidence.facts)

    async def walk(self, method: Method, draft: str = "", settings: Mapping[str, Any] | None = None) -> RunRecord:
        """Return the record of this run under the method; `draft` and `settings` say how the method was made."""
        actions = self._evidence.actions
        sent: list[Compressed] = []
        began = time.perf_counter()
        for action in actions:
            sent.append(await method.compress(self._evidence.run.messages[: action.messages]))
        seconds = time.perf_counter() - began
        seen = [self._views.look(one.messages) for one in sent]
        steps = tuple(map(self._step, actions, sent, seen))
        cost, cost_cached = self._costs([one.messages for one in sent])
        run = self._evidence.run
        return RunRecord(
            file=run.file,
            run=run.id,
            method=method.name,
            draft=draft,
            budget=self._budget,
            settings=settings or {},
            steps=steps,
            events=sum(step.event for step in steps),
            failures=sum(one.failure is not None for one in sent),
            failure=next((one.failure for one in sent if one.failure is not None), None),
            unanswered=sum(one.unanswered for one in sent),
            words_lost=len(frozenset[str]().union(*map(self._lost, actions, seen))),
            peak=max((step.sent_tokens for step in steps), default=0),
            dependency=sum(map(_dependency, steps, actions)),
            cost=cost,
            cost_cached=cost_cached,
            usage=sum((one.usage for one in sent), Usage()),
            seconds=round(seconds, 3),
        )

    def _step(self, action: RecordedAction, sent: Compressed, seen: Seen) -> StepRecord:
        tokens = self._evidence.tokens_before(action.messages)
        spans = self._evidence.span_tokens_before(action.span)
        failures = [self._evidence.results_of(index) for index in action.repeats]
        return StepRecord(
            step=action.span,
            due=tokens > self._budget,
            event=sent.happened,
            span_tokens=spans,
            span_left=seen.tokens - (tokens - spans),
            history_tokens=tokens,
            sent_tokens=seen.tokens,
            needed=len(action.needs),
            there=len(action.needs & seen.facts),
            repeated=bool(failures),
            forgotten=bool(failures) and not any(seen.texts.keys() >= failure for failure in failures),
        )

    def _lost(self, action: RecordedAction, seen: Seen) -> frozenset[str]:
        """Return the user's words and system prompts that are not in the view."""
        return frozenset(Counter(self._evidence.words(action.messages)) - seen.texts)

    def _costs(self, views: Sequence[Sequence[Message]]) -> tuple[float | None, float | None]:
        """Return the cost in USD without a provider's cache, and with one."""
        price = self._price
        if price is None:
            return None, None
        actions = self._evidence.actions
        ends = [action.messages for action in actions]
        fresh = [end - before for before, end in zip((0, *ends), ends, strict=False)]
        calls = calls_of(views, fresh, self._views.size)
        output = price.cost(0, sum(action.output_tokens for action in actions))
        return output + price.cost(sum(call.tokens for call in calls), 0), output + sum(
            call.cost(price) for call in calls
        )


def _dependency(step: StepRecord, action: RecordedAction) -> float:
    return (step.sent_tokens + 2 * action.output_tokens) * action.output_tokens / 2


@dataclass(frozen=True, slots=True)
class Seen:
    """Tokens, texts and facts of one view."""

    tokens: int
    """Tokens as the budget counts them: without system prompts."""
    static: int
    """Tokens of system prompts."""
    texts: Counter[str]
    """Every thought, action, observation and word in it."""
    facts: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Read:
    tokens: int
    static: int
    texts: tuple[str, ...]
    facts: frozenset[str]


class Views:
    """Reads views of one history. Messages of the history are read once, those that a method made each time."""

    def __init__(self, history: History, facts: Collection[str]) -> None:
        self._wire = wire_named(history.format)
        self._facts = facts
        self._held: dict[str, frozenset[str]] = {}
        self._messages = history.messages  # held, so that no other object gets their ids
        self._known = {id(message): self._read(message) for message in history.messages}

    def look(self, view: Sequence[Message]) -> Seen:
        read = [self._known.get(id(message)) or self._read(message) for message in view]
        return Seen(
            tokens=sum(one.tokens for one in read),
            static=sum(one.static for one in read),
            texts=Counter(text for one in read for text in one.texts),
            facts=frozenset[str]().union(*(one.facts for one in read)),
        )

    def held(self, text: str) -> frozenset[str]:
        """Return the facts that a text holds."""
        if text not in self._held:
            self._held[text] = frozenset(fact for fact in self._facts if fact in text)
        return self._held[text]

    def size(self, message: Message) -> int:
        """Return all tokens of a message, system prompts included."""
        read = self._known.get(id(message)) or self._read(message)
        return read.tokens + read.static

    def _read(self, message: Message) -> _Read:
        parts = self._wire.read(message, 0)
        sizes = [(part.static, part_tokens(part)) for part in parts]
        texts = tuple(text for part in parts for text in (part.thought, part.action, part.text) if text)
        return _Read(
            tokens=sum(size for static, size in sizes if not static),
            static=sum(size for static, size in sizes if static),
            texts=texts,
            facts=frozenset[str]().union(*map(self.held, texts)),
        )


@dataclass(frozen=True, slots=True)
class CallInput:
    """The input of one call, in tokens."""

    cached: int
    """The prefix it shares with the call before, read at the provider's price for its cache."""
    again: int
    """Sent before, but behind the first change: read again uncached."""
    new: int

    @property
    def tokens(self) -> int:
        return self.cached + self.again + self.new

    def cost(self, price: Price) -> float:
        """USD."""
        units = price.cache_read * self.cached + price.cache_write * (self.again + self.new)
        return units * price.input / 1_000_000


def calls_of(
    views: Sequence[Sequence[Message]], fresh: Sequence[int], size: Callable[[Message], int]
) -> list[CallInput]:
    """Return the calls that these views make; the last `fresh[i]` messages of view i were never sent before.

    The provider has cached the longest common prefix, by messages, of a call's view and the one before. It is assumed
    that calls come fast enough for the cache to stay warm (a cold one only helps the smaller view), that the system
    prompt is cached from the first call on, and that caches have no smallest size.
    """
    calls = []
    before: Sequence[Message] = [one for one in views[0] if one.get("role") in _SYSTEM] if views else []
    for view, unsent in zip(views, fresh, strict=True):
        same = common_prefix(before, view)
        border = max(len(view) - unsent, same)
        parts = (view[:same], view[same:border], view[border:])
        calls.append(CallInput(*(sum(map(size, part)) for part in parts)))
        before = view
    return calls


def common_prefix(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Count the messages that two lists have in common at the start."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return place
    return min(len(first), len(second))
