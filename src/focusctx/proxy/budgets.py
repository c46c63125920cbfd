"""Budgets of their own for callers, models and upstreams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..compressor import Focus
from ..errors import ConfigError
from .access import Caller
from .conversations import Key
from .upstream import Upstream


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """The budget for models whose name fits a pattern such as `gpt-5*`."""

    pattern: str
    budget: int

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ConfigError(f"the budget for the models {self.pattern} must be 0 or more, got {self.budget}")


class Budgets:
    """Chooses a conversation's compressor: by its caller, else by its model, else by its upstream, else the usual one.

    Of several patterns that fit a model, the first counts.
    """

    def __init__(
        self, focus: Focus, callers: Sequence[Caller], models: Sequence[ModelBudget], upstreams: Sequence[Upstream]
    ) -> None:
        self._focus = focus
        self._callers = {caller.name: caller.budget for caller in callers}
        self._models = models
        self._upstreams = {upstream.name: upstream.budget for upstream in upstreams}
        self._made = {focus.config.budget: focus}

    def focus_for(self, key: Key) -> Focus:
        """Return the compressor with the budget of this conversation."""
        budget = self._budget(key)
        if budget not in self._made:
            self._made[budget] = Focus(self._focus.draft, config=self._focus.config.with_changes(budget=budget))
        return self._made[budget]

    def _budget(self, key: Key) -> int:
        of_model = next((each.budget for each in self._models if fnmatchcase(key.model, each.pattern)), None)
        for budget in (self._callers.get(key.caller), of_model, self._upstreams.get(key.upstream)):
            if budget is not None:
                return budget
        return self._focus.config.budget
