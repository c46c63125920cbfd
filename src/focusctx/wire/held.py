"""Requests whose history the provider holds: they carry new messages only, so there is nothing to compress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HELD_BY = ("previous_response_id", "conversation", "thread")
"""The fields that say so: OpenAI's first two, and Anthropic's message threads. A request that creates a thread has its
whole history, but later ones go on from what the provider got with it: that must be what the agent sent."""


def is_held(request: Mapping[str, Any]) -> bool:
    """True if the provider holds the history that a request goes on from, or is asked to hold it from now on."""
    return any(request.get(field) for field in HELD_BY)
