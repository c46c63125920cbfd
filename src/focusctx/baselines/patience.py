"""Drafts for experiments: with more time and retries than an agent would wait for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from ..drafts.anthropic import AnthropicDraft
from ..drafts.openai_compatible import OpenAICompatibleDraft
from ..drafts.registry import draft_from
from ..types import DraftModel, Prompt

Writer: TypeAlias = str | DraftModel | Callable[[Prompt], str | Awaitable[str]]
"""A model that writes text, in any form that a draft can be given."""

PATIENCE = 120.0
"""Seconds a model may take for an answer. In an experiment a busy server may cost time, but not change the outcome."""

_RETRIES = 10


def patient(model: Writer, seconds: float = PATIENCE) -> DraftModel:
    """Return the draft of that name with a longer timeout and more retries; other drafts unchanged."""
    draft = draft_from(model)
    if isinstance(model, str) and isinstance(draft, OpenAICompatibleDraft | AnthropicDraft):
        draft.endpoint = replace(draft.endpoint, timeout=seconds, retries=_RETRIES)
    return draft
