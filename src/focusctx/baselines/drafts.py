"""Drafts for experiments: with more time and retries than an agent would wait for, and other ways to ask for sketches.

The ways differ in requests, tokens and waiting, not in the plans.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ..drafts.anthropic import AnthropicDraft
from ..drafts.http import as_they_come
from ..drafts.openai_compatible import OpenAICompatibleDraft
from ..drafts.registry import draft_from
from ..errors import ConfigError
from ..types import DraftModel, Prompt, Reply

Writer: TypeAlias = str | DraftModel | Callable[[Prompt], str | Awaitable[str]]
"""A model that writes text, in any form that a draft can be given."""

PATIENCE = 120.0
"""Seconds that a model may take for an answer: a busy server must not change the outcome of an experiment."""

_RETRIES = 10


def patient(model: Writer, seconds: float = PATIENCE) -> DraftModel:
    """Return the draft of that name with a longer timeout and more retries; other drafts unchanged."""
    draft = draft_from(model)
    if isinstance(model, str) and isinstance(draft, OpenAICompatibleDraft | AnthropicDraft):
        draft.endpoint = replace(draft.endpoint, timeout=seconds, retries=_RETRIES)
    return draft


RolloutMode: TypeAlias = Literal["n", "parallel", "sequential"]
"""`n`: one request for all of them where the server can do that, so the input is paid for once. `parallel`: N requests
at the same time. `sequential`: N requests, one after the other."""

ROLLOUT_MODES: tuple[str, ...] = get_args(RolloutMode)


def requesting(draft: DraftModel, mode: str) -> DraftModel:
    """Return the draft with its sketches requested in the given way."""
    if mode not in ROLLOUT_MODES:
        raise ConfigError(f"unknown rollout mode {mode!r}; known: {', '.join(ROLLOUT_MODES)}")
    return draft if mode == "n" else SingleRequests(draft, parallel=mode == "parallel")


class SingleRequests:
    """Makes a separate request for every sketch, each with another seed."""

    def __init__(self, draft: DraftModel, *, parallel: bool) -> None:
        self._draft = draft
        self._parallel = parallel
        self.endpoint: Any = getattr(draft, "endpoint", None)
        """The draft's server, from which its price is known; None for a draft without one."""

    @property
    def name(self) -> str:
        return self._draft.name

    async def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        calls = (self._one(replace(prompt, seed=prompt.seed + k)) for k in range(n))
        if self._parallel:
            async with aclosing(as_they_come(calls)) as answers:
                async for replies in answers:
                    for reply in replies:
                        yield reply
            return
        for call in calls:
            for reply in await call:
                yield reply

    async def _one(self, prompt: Prompt) -> list[Reply]:
        return [reply async for reply in self._draft.sample(prompt, 1)]
