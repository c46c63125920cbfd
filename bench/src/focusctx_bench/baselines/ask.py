"""Ask a model one question: what summarisers and optimisers need, over the drafts there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count, repeat
from typing import TypeAlias

from focusctx.baselines.drafts import PATIENCE, Writer, patient
from focusctx.errors import ConfigError, DraftError
from focusctx.pipeline.draft import sample
from focusctx.prices import price_of
from focusctx.types import History, Prompt, Reply

Ask: TypeAlias = Callable[[str, str], Awaitable[Reply]]
"""Answers a question under a system prompt. Raises whatever went wrong."""


def ask_from(
    model: Writer, *, temperature: float = 0.0, max_tokens: int = 2048, seed: int = 42, deadline: float = PATIENCE
) -> Ask:
    """Return a function that asks the model; `deadline` is in seconds.

    The answer's usage has its cost where a price is known. Above temperature 0 every question has a seed of its own:
    asked twice, it may be answered in two ways.
    """
    draft = patient(model, deadline)
    if draft.name == "offline":
        raise ConfigError("the offline draft cannot write text: name a language model")
    price = price_of(draft.name)
    seeds = count(seed) if temperature else repeat(seed)

    async def ask(system: str, user: str) -> Reply:
        prompt = Prompt(system, user, History("", ()), temperature, max_tokens, next(seeds))
        replies, problem = await sample(draft, prompt, 1, deadline)
        if not replies:
            raise DraftError(problem or f"{draft.name} gave no answer")
        usage = replies[0].usage
        if usage.input_tokens + usage.output_tokens:
            cost = price.cost(usage.input_tokens, usage.output_tokens) if price else None
            usage = replace(usage, cost=cost)
        return replace(replies[0], usage=usage)

    return ask
