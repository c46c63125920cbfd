"""Rules that need no model and no budget: nothing, the newest turns, masked observations."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigError
from ..types import History, Message, Span
from .method import Compressed
from .turnwise import Choice, Turnwise


class NoCompression:
    """The whole history, at every step."""

    name = "none"

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return Compressed(messages)


class Fifo(Turnwise):
    """The newest turns, whatever their length."""

    name = "fifo"

    def __init__(self, turns: int = 5) -> None:
        super().__init__()
        if turns < 1:
            raise ConfigError(f"turns must be 1 or more, got {turns!r}")
        self._turns = turns

    async def choose(self, history: History) -> Choice | None:
        return Choice([span.index for span in history.spans[-self._turns :]])


class Masking(Turnwise):
    """All thoughts and actions, and the newest observations; older ones become `focusctx.wire.part.PLACEHOLDER`.

    An observation shorter than that stays.
    """

    def __init__(self, keep: int = 10) -> None:
        super().__init__()
        if keep < 1:
            raise ConfigError(f"keep must be 1 or more, got {keep!r}")
        self.name = f"masking-{keep}"
        self._keep = keep

    async def choose(self, history: History) -> Choice | None:
        observing = [span.index for span in history.spans if _has_observation(span)]
        masked = frozenset(observing[: -self._keep])
        return Choice([span.index for span in history.spans if span.index not in masked], masked=True)


def _has_observation(span: Span) -> bool:
    return any(message.get("role") != "assistant" for message in span.messages)
