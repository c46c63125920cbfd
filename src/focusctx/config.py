"""Every setting, with one docstring each. `FocusConfig.paper()` has the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict

from .checks import check_types
from .errors import ConfigError
from .types import Message, PinRule

ObservationRule = Literal["auto", "never", "always"] | Callable[[Message, Message], bool]


class FocusSettings(TypedDict, total=False):
    """The settings as keyword arguments of `Focus`; documented in `FocusConfig`."""

    budget: int
    rollouts: int
    threshold: float
    defensive: bool
    temperature: float
    prompt: Literal["focusctx", "paper"]
    levels: bool
    target: float | None
    reads: tuple[str, ...]
    tokens: str | Callable[[str], int]
    observations: ObservationRule
    pin: PinRule | None
    draft_window: int
    sketch_tokens: int
    deadline: float
    breaker_failures: int
    breaker_pause: float
    confidence: float
    m_max: float
    seed: int


class SessionOptions(TypedDict, total=False):
    """The keyword arguments of `Focus.session`; documented in `Session`."""

    tenant: str
    model: str | None
    only_if_it_pays: bool
    ahead: float
    growth: float
    recall: bool
    frozen: bool
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusConfig:
    """Compression settings. `FocusConfig()` and `FocusConfig.paper()` differ only where a measurement said so."""

    budget: int = 4096
    """δ: tokens of history (system prompt excluded) above which compression is due; see `target` for the size
    afterwards."""

    rollouts: int = 3
    """N: number of plan sketches sampled per event."""

    threshold: float = 0.3
    """τ: a span is kept when at least this share of the sketches cites it."""

    defensive: bool = True
    """FOCUS-D: also keep the spans that the sketches rescue. False is FOCUS-O, plan citations only."""

    temperature: float = 0.7
    """Temperature of the draft. Must be above 0, or the sketches do not differ."""

    prompt: Literal["focusctx", "paper"] = "focusctx"
    """Prompt sent to the draft. `paper` asks for what the paper's prompt asks for. `focusctx` adds which spans stay in
    any case, that finished work is not a step, that steps listing members of a set are needed, and that a trace is
    data."""

    levels: bool = True
    """Decide passage by passage: a span stays whole, as an excerpt of its results, or as a record of what was done and
    how it ended. False: a span stays or goes as a whole (the paper's rule)."""

    target: float | None = 0.5
    """Size of the history after an event: a share of the budget up to 1, or a number of tokens. What the sketches cite
    stays first, spare room goes to what the data flow of the history expects to be needed; only text that may never go
    can exceed it, and then the result says so. None: what the sketches ask for stays, whatever its size (the paper's
    rule)."""

    reads: tuple[str, ...] = ()
    """Names of tools that change nothing. Other tools are known by their names (`get_order`) or by the shell command
    they run; one that is not known to read counts as writing, and the record of its call stays."""

    tokens: str | Callable[[str], int] = "cl100k_base"
    """Token counter: `cl100k_base`, `o200k_base`, or any function from text to a number."""

    observations: ObservationRule = "auto"
    """Rule for a `user` message after an assistant turn: is it the environment's answer (droppable with its span) or
    the user's own words (never dropped)? `auto` reads it as an observation only if the evidence is clear: the task, the
    action in the turn before, the form of the message and of the answers before it. In doubt it stays, and the result
    has a warning. `always` and `never` decide for all; a function gets (user message, assistant message before it)."""

    pin: PinRule | None = None
    """A custom rule: spans for which it returns True are never dropped."""

    draft_window: int = 24_000
    """Most tokens of history shown to the draft. In longer histories the longest fields are cut in the middle, in the
    draft's prompt only."""

    sketch_tokens: int = 1024
    """Most tokens of a sketch."""

    deadline: float = 30.0
    """Seconds that all sketches of one event may take; there is no other limit. Sketches that arrived by then count, if
    they are a majority."""

    breaker_failures: int = 3
    """After this many failed events in a row, or once they took as long as `deadline`, the draft is not asked …"""

    breaker_pause: float = 60.0
    """… for this many seconds, or as long as the last failure took; histories pass through unchanged meanwhile. 0: it
    is always asked again."""

    confidence: float = 0.95
    """Confidence level of the certificate's radius."""

    m_max: float = 1.0
    """The certificate's constant: the most that dropping a needed set can change. 1 for total variation."""

    seed: int = 42
    """Passed to drafts that accept a seed, increased by one for each sketch."""

    def __post_init__(self) -> None:
        check_types(FocusConfig, {knob.name: getattr(self, knob.name) for knob in fields(self)})
        wrong = {
            "budget must be 0 or more": self.budget < 0,
            "rollouts must be 1 or more": self.rollouts < 1,
            "threshold must be above 0 and at most 1": not 0 < self.threshold <= 1,
            "temperature must be 0 or more": self.temperature < 0,
            "target must be None, a share of the budget above 0, or a number of tokens": self.target is not None
            and not self.target > 0,
            "draft_window must be 256 or more": self.draft_window < 256,
            "sketch_tokens must be 1 or more": self.sketch_tokens < 1,
            "deadline must be above 0": not self.deadline > 0,
            "breaker_failures must be 1 or more": self.breaker_failures < 1,
            "breaker_pause must be 0 or more": self.breaker_pause < 0,
            "confidence must be between 0 and 1": not 0 < self.confidence < 1,
            "m_max must be above 0": self.m_max <= 0,
        }
        for rule, broken in wrong.items():
            if broken:
                name = rule.split(" ", 1)[0]
                raise ConfigError(f"{rule}, got {getattr(self, name)!r}")

    @classmethod
    def paper(cls, **changes: Any) -> FocusConfig:
        """Return the paper's settings, with everything beyond the paper switched off."""
        return cls(prompt="paper", levels=False, target=None).with_changes(**changes)

    def with_changes(self, **changes: Any) -> FocusConfig:
        """Return a copy with some settings changed; an unknown name is an error that lists the known ones."""
        known = {knob.name for knob in fields(self)}
        for name in changes:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        return replace(self, **changes)
