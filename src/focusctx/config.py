"""Every knob, one docstring each. The defaults are the paper's, but for `fill`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal, TypedDict

from .errors import ConfigError
from .types import Message, PinRule

ObservationRule = Literal["auto", "never", "always"] | Callable[[Message, Message], bool]

_WHOLE = ("budget", "rollouts", "limit", "draft_window", "sketch_tokens", "breaker_failures", "seed")
_NUMBERS = ("threshold", "temperature", "fill", "deadline", "breaker_pause", "confidence", "m_max")
_MAY_BE_NONE = ("limit",)


class Settings(TypedDict, total=False):
    """The knobs as keyword arguments of `Focus`; `FocusConfig` says what each one means."""

    budget: int
    rollouts: int
    threshold: float
    defensive: bool
    temperature: float
    prompt: Literal["focusctx", "paper"]
    dropped: Literal["remove", "skeleton"]
    fill: float
    limit: int | None
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
    """The keyword arguments of `Focus.session`; `Session` says what each one means."""

    tenant: str
    model: str | None
    money_gate: bool
    ahead: float
    growth: float
    recall: bool
    frozen: bool
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusConfig:
    """How to compress. `FocusConfig()` and `FocusConfig.paper()` differ only where a measurement said so."""

    budget: int = 4096
    """δ: tokens of history (system prompt excluded) above which compression is due. How small it gets is not said by
    this: see `limit`."""

    rollouts: int = 3
    """N: how many plan sketches are sampled per event."""

    threshold: float = 0.3
    """τ: a span is kept when at least this share of the sketches cites it."""

    defensive: bool = True
    """FOCUS-D: also keep what the sketches rescue. False is FOCUS-O, plan citations only."""

    temperature: float = 0.7
    """Of the draft. Above 0, or the sketches do not differ."""

    prompt: Literal["focusctx", "paper"] = "focusctx"
    """The words in which the draft is asked. `paper` asks for what the paper's prompt asks for. Ours adds what stays in
    any case, that finished work is no step, that steps listing members of a set are needed, and that a trace is data.
    """

    dropped: Literal["remove", "skeleton"] = "remove"
    """What becomes of a dropped span: `remove` takes it out whole (the paper's rule); `skeleton` keeps its
    thought and action and puts a short placeholder where its observation was."""

    fill: float = 0.7
    """Where the sketches leave less than this share of the spans' tokens, the room up to it, and within the budget,
    goes to what the data flow ranks next: spans come back whole, or as skeletons without their observation. 0: never.
    """

    limit: int | None = None
    """Tokens that the history has at most afterwards: where more would stay, the spans of highest total utility that
    fit are kept, and only pinned ones may still exceed it. None for no limit."""

    tokens: str | Callable[[str], int] = "cl100k_base"
    """How tokens are counted: `cl100k_base`, `o200k_base`, or any function from text to a number."""

    observations: ObservationRule = "auto"
    """Whether a `user` message after an assistant turn is the environment's answer (droppable with its span)
    or the user's own words (never dropped). `auto` reads it as an observation only where the task asks for
    actions in plain text, the turn before holds one, and the message has the form of tool output;
    `never` and `always` decide for all; a function gets (user message, assistant message before it)."""

    pin: PinRule | None = None
    """A rule of your own: spans for which it returns True are never dropped."""

    draft_window: int = 24_000
    """Tokens of history the draft is shown at most. Longer histories have their longest fields cut in the
    middle, in the draft's prompt only."""

    sketch_tokens: int = 1024
    """Tokens a sketch may have."""

    deadline: float = 30.0
    """Seconds all sketches of one event may take. What is there by then counts, if it is a majority."""

    breaker_failures: int = 3
    """After this many failed events in a row the draft is left alone …"""

    breaker_pause: float = 60.0
    """… for this many seconds; histories pass through untouched meanwhile."""

    confidence: float = 0.95
    """Confidence level of the certificate's radius."""

    m_max: float = 1.0
    """The certificate's constant: the most that dropping a needed set can change. 1 for total variation."""

    seed: int = 42
    """Passed to drafts that can be seeded, one number further for each sketch."""

    def __post_init__(self) -> None:
        for names, kind, called in ((_WHOLE, Integral, "a whole number"), (_NUMBERS, Real, "a number")):
            for name in names:
                value = getattr(self, name)
                if not isinstance(value, kind) and not (value is None and name in _MAY_BE_NONE):
                    raise ConfigError(f"{name} must be {called}, got {value!r}")
        wrong = {
            "budget must be 0 or more": self.budget < 0,
            "rollouts must be 1 or more": self.rollouts < 1,
            "threshold must be above 0 and at most 1": not 0 < self.threshold <= 1,
            "temperature must be 0 or more": self.temperature < 0,
            "prompt must be 'focusctx' or 'paper'": self.prompt not in ("focusctx", "paper"),
            "dropped must be 'remove' or 'skeleton'": self.dropped not in ("remove", "skeleton"),
            "fill must be between 0 and 1": not 0 <= self.fill <= 1,
            "limit must be None or 1 or more": self.limit is not None and self.limit < 1,
            "limit must be None beside dropped='skeleton'": self.limit is not None and self.dropped == "skeleton",
            "observations must be 'auto', 'never', 'always' or a function": not (
                callable(self.observations) or self.observations in ("auto", "never", "always")
            ),
            "tokens must be the name of an encoding or a function": not (
                callable(self.tokens) or isinstance(self.tokens, str)
            ),
            "pin must be None or a function": not (self.pin is None or callable(self.pin)),
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
        """The paper's settings with everything beyond the paper switched off."""
        return cls(prompt="paper", dropped="remove", fill=0.0, limit=None).with_changes(**changes)

    def with_changes(self, **changes: Any) -> FocusConfig:
        """The same settings with some changed; an unknown name is an error that lists the known ones."""
        known = {knob.name for knob in fields(self)}
        for name in changes:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        return replace(self, **changes)
