"""Money of a run: which models it pays for, and the cost of those that an environment asks by itself.

The agent's steps carry their own cost. A user simulator, a judge or an app with a model in it is asked from deep inside
an environment; `environment_model` charges it to the task that is running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from focusctx.drafts.registry import draft_from, price_of_draft
from focusctx.errors import ConfigError
from focusctx.prices import Price, price_of
from focusctx.types import Message

from .job import SCRIPTED, Job
from .models.registry import model_from
from .protocols import Model, Turn

Charge: TypeAlias = Callable[[float | None, str], None]
"""Counts a cost in USD, None if it is not known, and whose it is."""

ENVIRONMENT_MODELS = ("user", "judge", "llm")
"""Settings of benchmarks that name a model."""

_charge: ContextVar[Charge | None] = ContextVar("charge", default=None)


@contextmanager
def charging(charge: Charge) -> Iterator[None]:
    """Charge what environments ask of their own models in here."""
    token = _charge.set(charge)
    try:
        yield
    finally:
        _charge.reset(token)


class ChargedModel:
    """A model of an environment: every answer is charged to the task in whose course it was given."""

    def __init__(self, model: Model, whose: str) -> None:
        self.name = model.name
        self._model = model
        self._whose = whose

    async def answer(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Turn:
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
