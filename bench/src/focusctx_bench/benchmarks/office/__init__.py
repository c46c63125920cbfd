"""A small stateful office, made by seed: our own testbed for compression methods. See docs/office.md.

It says nothing about language models: its agent is scripted and can act only on what its context shows, so that
two methods can be compared exactly, in seconds.
"""

from __future__ import annotations

from focusctx.errors import ConfigError

from ...models.scripted import FunctionModel
from ...protocols import Options
from .clerk import decide
from .clerk.planner import PlannerDraft
from .environment import DEFAULT_TASKS, Office


def benchmark(options: Options) -> Office:
    """`--seed` makes another office; `tasks=N` another number of tasks; `rules=true` adds a rule to the hard ones."""
    count = options.more.get("tasks", str(DEFAULT_TASKS))
    if not count.isdecimal() or int(count) == 0:
        raise ConfigError(f"tasks must be a whole number above 0, got {count!r}")
    rules = options.more.get("rules", "false")
    if rules not in ("true", "false"):
        raise ConfigError(f"rules must be true or false, got {rules!r}")
    return Office(options.seed, int(count), rules == "true")


def scripted() -> FunctionModel:
    return FunctionModel(decide, "scripted:office")


def scripted_draft(misses: float = 0.0) -> PlannerDraft:
    """A draft that cites what the chores that are left need; with `misses`, one that overlooks that share of it."""
    return PlannerDraft(misses)
