"""Observation masking: the newest observations stay, older ones become a placeholder; all thoughts and actions stay.

No budget, no model. The placeholder is `focusctx.wire.part.PLACEHOLDER`; an observation shorter than that stays.
"""

from __future__ import annotations

from ..errors import ConfigError
from ..types import History, Span
from .turnwise import Choice, Turnwise


class Masking(Turnwise):
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
