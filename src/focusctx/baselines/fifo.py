"""FIFO: the newest turns stay, whatever their length. No budget, no model."""

from __future__ import annotations

from ..errors import ConfigError
from ..types import History
from .turnwise import Choice, Turnwise


class Fifo(Turnwise):
    name = "fifo"

    def __init__(self, turns: int = 5) -> None:
        super().__init__()
        if turns < 1:
            raise ConfigError(f"turns must be 1 or more, got {turns!r}")
        self._turns = turns

    async def choose(self, history: History) -> Choice | None:
        return Choice([span.index for span in history.spans[-self._turns :]])
