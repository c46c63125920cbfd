"""No compression: the whole history, at every step."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Message
from .method import Compressed


class NoCompression:
    name = "none"

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return Compressed(messages)
