"""Callers with a token and a name of their own: they share nothing, and each has its own budget and totals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SHORTEST = 16
"""Characters that a token must have: shorter ones could be guessed."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One of those who may use the proxy. The name is shown on the dashboard and in the metrics, the token nowhere."""

    name: str
    token: str = field(repr=False)
    budget: int | None = None
    """Budget of this caller's conversations; None for the usual one."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"invalid name of a caller {self.name!r}: use up to 64 letters, digits, '.', '_' and '-'")
        if len(self.token) < SHORTEST:
            raise ConfigError(f"the token of {self.name} is shorter than {SHORTEST} characters: use a longer one")
        if self.budget is not None and self.budget < 0:
            raise ConfigError(f"the budget of {self.name} must be 0 or more, got {self.budget}")
