"""Requests whose history is stored by the provider: they carry new messages only, so there is nothing to compress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HELD_BY = ("previous_response_id", "conversation", "thread")
"""Fields that mark such a request: two of OpenAI's, and Anthropic's message threads. A request that creates a thread
has its whole history, but later ones continue from what the provider received, so that must be what the agent sent."""


def is_held(request: Mapping[str, Any]) -> bool:
    """True if the provider stores the history that a request continues, or is asked to store it from now on."""
    return any(request.get(field) for field in HELD_BY)
