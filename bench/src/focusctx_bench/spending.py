"""Money of a run: which models it pays for, what it will cost, and the cost of models that an environment asks by
itself.

The agent's steps carry their own cost. A user simulator, a judge or an app with a model in it is asked from deep
inside an environment; `environment_model` charges it to the task that is running.

An estimate is made of sizes measured elsewhere, times the prices of the models. A task's history is taken to grow
by the same amount at every step; a compression leaves about half of it, as replays of recorded runs show. Once a
run has records, their own cost per task replaces this model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from focusctx.drafts.registry import draft_from, price_of_draft
from focusctx.errors import ConfigError
from focusctx.prices import Price, price_of
from focusctx.types import Message, Usage

from .job import SCRIPTED, BenchFolder, Job, Variant
from .metrics import of_task
from .models.served import model_from
from .protocols import Model, ModelAnswer, Task

Charge: TypeAlias = Callable[[float | None, str], None]
"""Counts a cost in USD, None if it is not known, and whose it is."""

ENVIRONMENT_MODELS = ("user", "judge", "llm")
"""Settings of benchmarks that name a model."""

_charge: ContextVar[Charge | None] = ContextVar("charge", default=None)
_KEPT = 0.5
"""Share of the history that a compression leaves."""
_SKETCH = 250
_SUMMARY = 500
_PROMPT = 400
"""Tokens of one sketch, of one summary, and of the instructions that ask for them."""
_FREE = Price(input=0.0, output=0.0)


@contextmanager
def charging(charge: Charge) -> Iterator[None]:
    """Charge what environments ask of their own models in here."""
    token = _charge.set(charge)
    try:
        yield
    finally:
        _charge.reset(token)


def told_usage(whose: str, usage: Usage) -> dict[str, float]:
    """Return what an environment's model used, as details of a score."""
    tokens = usage.input_tokens + usage.output_tokens
    cost = {} if usage.cost is None else {f"{whose}_cost": usage.cost}
    return {f"{whose}_requests": usage.requests, f"{whose}_tokens": tokens, **cost}


class ChargedModel:
    """A model of an environment: every answer is charged to the task in whose course it was given."""

    def __init__(self, model: Model, whose: str) -> None:
        self.name = model.name
        self._model = model
        self._whose = whose

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> ModelAnswer:
        turn = await self._model.answer(messages, tools)
        if (charge := _charge.get()) is not None:
            charge(turn.usage.cost if turn.billed is None else turn.billed, self._whose)
        return turn


def environment_model(name: str, whose: str, *, seed: int) -> Model:
    """Return the model of that name for an environment's own use; `whose` says what for."""
    return ChargedModel(model_from(name, seed=seed), whose)


def paid_models(job: Job) -> dict[str, Price | None]:
    """Return every model that a job asks, by name, with its price; None where none is known."""
    named = [job.model] if job.model else []
    prices = {name: price_of(model_from(name).name) for name in named}
    for benchmark, options in job.benchmarks.items():
        for key in ENVIRONMENT_MODELS:
            if name := options.more.get(key):
                prices[name] = price_of(model_from(name).name)
        for variant in job.variants(benchmark):
            if (draft := variant.settings.get("draft")) not in (None, "offline", SCRIPTED):
                prices[draft] = price_of_draft(draft_from(draft))
            if (writer := variant.settings.get("compressor")) not in (None, "offline", SCRIPTED):
                prices[writer] = price_of(draft_from(writer).name)
            embedder = variant.settings.get("embedder") or ""
            if embedder.startswith("openai:"):
                prices[embedder] = price_of(embedder.removeprefix("openai:").partition("@")[0])
    return prices


def check_prices(job: Job, max_cost: float | None) -> list[str]:
    """Return the models without a known price; under a spending limit, refuse them before anything is paid for."""
    unknown = [name for name, price in paid_models(job).items() if price is None]
    if unknown and max_cost is not None:
        raise ConfigError(
            f"the spending limit cannot be kept: no price is known for {', '.join(unknown)}; give prices in a file "
            "that FOCUSCTX_PRICES names, or set no limit"
        )
    return unknown


@dataclass(frozen=True, slots=True)
class Profile:
    """An uncompressed task on average. Tokens are cl100k_base."""

    steps: float
    cumulative: float
    """Input of all steps together, system prompt excluded."""
    written: float
    system: float
    """System prompt and tool definitions, read at every step."""
    source: str


PROFILES = {
    "appworld": Profile(16.9, 114_482, 1_600, 300, "the paper's tables"),
    "officebench": Profile(10.7, 38_798, 970, 670, "the paper's tables"),
    "webvoyager": Profile(8.9, 85_207, 900, 700, "the paper's tables; output by guess"),
    "qa8": Profile(15.8, 106_000, 1_200, 200, "the paper's steps and peak"),
    "tau2": Profile(13.0, 17_500, 850, 4_000, "100 recorded runs of gpt-4.1 in three domains"),
    "office": Profile(15.8, 72_221, 1_842, 1_000, "66 recorded runs of a strong model"),
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens and USD that the tasks of one variant still need."""

    benchmark: str
    variant: str
    tasks: int
    requests: float
    input_tokens: float
    output_tokens: float
    cost: float | None
    """None if some model has no known price."""
    basis: str


def estimate(job: Job, tasks: Mapping[str, Sequence[Task]], folder: BenchFolder) -> list[Estimate]:
    """Return an estimate for each variant, for the tasks that have no record in the folder yet."""
    prices = paid_models(job)
    done = _done(folder)
    found = []
    for benchmark, some in tasks.items():
        for variant in job.variants(benchmark):
            finished = done.get((benchmark, variant.name), [])
            left = len(some) * job.repeats - len(finished)
            if finished:
                used, basis = _mean(finished), f"{len(finished)} records here"
            elif benchmark in PROFILES:
                profile = PROFILES[benchmark]
                used, basis = _modelled(benchmark, profile, job, variant, prices), profile.source
            else:
                raise ConfigError(f"no sizes are known for {benchmark}: run some tasks first, then estimate the rest")
            tokens = left * used.requests, left * used.input_tokens, left * used.output_tokens
            cost = None if used.cost is None else left * used.cost
            found.append(Estimate(benchmark, variant.name, left, *tokens, cost, basis))
    return found


@dataclass(slots=True)
class _Used:
    """Usage of one task, with fractions of tokens."""

    requests: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float | None = 0.0

    def add(self, price: Price | None, requests: float, read: float, written: float) -> None:
        self.requests += requests
        self.input_tokens += read
        self.output_tokens += written
        if price is None or self.cost is None:
            self.cost = None
        else:
            self.cost += (read * price.input + written * price.output) / 1_000_000


def _modelled(
    benchmark: str, profile: Profile, job: Job, variant: Variant, prices: Mapping[str, Price | None]
) -> _Used:
    settings = variant.settings
    agent = prices[job.model] if job.model else _FREE
    writer = settings.get("draft") or settings.get("compressor")
    writer_price = prices.get(writer, _FREE) if writer else _FREE
    growth = 2 * profile.cumulative / profile.steps**2
    used, history = _Used(), 0.0
    for _ in range(round(profile.steps)):
        history += growth
        if history > settings.get("budget", float("inf")):
            history = _compressed(used, history, variant, writer_price)
        if (embedder := settings.get("embedder", "")) in prices:
            used.add(prices[embedder], 1, growth, 0)
        used.add(agent, 1, profile.system + history, profile.written / profile.steps)
    more = job.benchmarks[benchmark].more
    if user := more.get("user"):  # who answers about every second step
        turns = profile.steps / 2
        used.add(prices[user], turns, turns * (1500 + profile.cumulative / profile.steps / 2), 60 * turns)
    if judge := more.get("judge") or (benchmark == "tau2" and user):  # who is asked once
        used.add(prices[judge], 1, 2500, 200)
    return used


def _compressed(used: _Used, history: float, variant: Variant, price: Price | None) -> float:
    """Count one event and return the tokens that it leaves."""
    if variant.method.startswith("focus"):
        n = variant.settings["rollouts"]
        requests = 1 if variant.settings.get("rollout_mode") == "n" else n
        used.add(price, requests, requests * (history + _PROMPT), n * _SKETCH)
        return _KEPT * history
    if "compressor" in variant.settings:
        used.add(price, 1, history + _PROMPT, _SUMMARY)
        return _SUMMARY
    return _KEPT * history


def _done(folder: BenchFolder) -> dict[tuple[str, str], list[Usage]]:
    found: dict[tuple[str, str], list[Usage]] = {}
    if folder.has_job:
        for record in folder.records:
            metrics = of_task(record)
            found.setdefault((record.benchmark, record.variant), []).append(metrics.agent + metrics.draft)
    return found


def _mean(finished: Sequence[Usage]) -> _Used:
    total, count = sum(finished, Usage()), len(finished)
    cost = None if total.cost is None else total.cost / count
    return _Used(total.requests / count, total.input_tokens / count, total.output_tokens / count, cost)
