"""Asking a model one question: what summarisers and optimisers need of one, over the drafts there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count, repeat
from typing import TypeAlias

from ..drafts.anthropic import AnthropicDraft
from ..drafts.openai_compatible import OpenAICompatibleDraft
from ..drafts.registry import draft_from
from ..errors import ConfigError, DraftError
from ..pipeline.draft import sample
from ..prices import price_of
from ..types import DraftModel, History, Prompt, Reply

Ask: TypeAlias = Callable[[str, str], Awaitable[Reply]]
"""From a system prompt and a question to the answer. Raises whatever went wrong."""

Writer: TypeAlias = str | DraftModel | Callable[[Prompt], str | Awaitable[str]]
"""A model that writes, in every form that names a draft."""

PATIENCE = 120.0
"""Seconds a model may take for an answer. In an experiment a busy server may cost time, but not change the outcome."""

_RETRIES = 10


def patient(model: Writer, seconds: float = PATIENCE) -> DraftModel:
    """The draft of that name, with more time and retries than one has that an agent waits for; others as they are."""
    draft = draft_from(model)
    if isinstance(model, str) and isinstance(draft, OpenAICompatibleDraft | AnthropicDraft):
        draft.endpoint = replace(draft.endpoint, timeout=seconds, retries=_RETRIES)
    return draft


def ask_from(
    model: Writer, *, temperature: float = 0.0, max_tokens: int = 2048, seed: int = 42, deadline: float = PATIENCE
) -> Ask:
    """A model as something to ask; `deadline` is in seconds. The answer's usage has its cost where a price is known.

    Above temperature 0 every question has a seed of its own: asked twice, it may be answered in two ways.
    """
    draft = patient(model, deadline)
    if draft.name == "offline":
        raise ConfigError("the offline draft only plans: name a model that writes text")
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
