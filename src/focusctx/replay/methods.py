"""The methods that a replay walks through: all that are installed, and `focus`, FOCUS with its shipped settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..baselines.drafts import patient
from ..baselines.embedders import Embed, embedder_from
from ..baselines.focus import compressed_by
from ..baselines.method import Compressed, Method
from ..baselines.registry import MethodSettings, method_from, method_names, unknown_method
from ..compressor import Focus
from ..config import FocusConfig, FocusSettings, SessionOptions
from ..errors import ConfigError
from ..jobs.records import Key
from ..types import DraftModel, Message
from .record import settings_text
from .runs import Run

SHIPPED = "focus"
FOCUS = ("focus-o", "focus-d", SHIPPED)
ANY_FORMAT = ("none", *FOCUS)
"""Methods that read every format; the others read Chat Completions only."""

_WRITERS = ("prompting", "summary", "acon-ut", "acon-utco")
_NOT_RECORDED = frozenset(
    {
        *("budget", "tokens", "observations", "pin", "draft_window", "deadline", "breaker_failures", "breaker_pause"),
        *("temperature", "sketch_tokens", "seed", "confidence", "m_max"),
    }
)
"""Settings that a record names elsewhere, or that are never varied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Settings of the methods; the same for all runs."""

    methods: tuple[str, ...]
    draft: str | None = "offline"
    """None if only recorded sketches are played back."""
    rollouts: int = 3
    threshold: float = 0.3
    changes: tuple[tuple[str, Any], ...] = ()
    """Settings of `FocusConfig` in which `focus` differs from the shipped ones."""
    compressor: str | None = None
    embedder: str = "words"
    deadline: float = 600.0
    """Seconds that all sketches of an event may take."""
    model: str = "gpt-4.1"
    """The model at whose prices the agent's calls are counted."""
    matched: bool = True
    """True if comparators walk too, with as many tokens as each FOCUS left."""

    def check(self, more: Sequence[str] = ()) -> None:
        """Reject unknown methods and wrong settings before the replay begins; `more` are further known methods."""
        known = (*method_names(), *more)
        for name in self.methods:
            if name not in known:
                raise unknown_method(name, known)
        self.config_of(SHIPPED, 0)

    def config_of(self, method: str, budget: int) -> FocusConfig:
        """Return the settings of a FOCUS. A draft that failed is asked again at the next event: replays ignore
        wall-clock pauses."""
        own: FocusSettings = {"budget": budget, "rollouts": self.rollouts, "threshold": self.threshold}
        own |= {"deadline": self.deadline, "breaker_pause": 0.0}
        if method == SHIPPED:
            return FocusConfig().with_changes(**{**own, **dict(self.changes)})
        return FocusConfig.paper(defensive=method == "focus-d", **own)

    def settings_of(self, method: str) -> dict[str, Any]:
        """Return what a record says about how it was made: the settings that its method reads."""
        name, _, matched = method.partition("@")
        own: dict[str, Any] = {"embedder": self.embedder} if name == "retrieval" else {}
        if name in _WRITERS:
            own = {"compressor": self.compressor or self.draft}
        focus = matched or name
        if focus == SHIPPED:
            left_out = _NOT_RECORDED - dict(self.changes).keys()
            own |= {key: value for key, value in asdict(self.config_of(focus, 0)).items() if key not in left_out}
        elif focus in FOCUS:
            own |= {"rollouts": self.rollouts, "threshold": self.threshold}
        return own

    def key_of(self, method: str, budget: int) -> Key:
        """Return the part of a record's key that follows the place."""
        return method, self.draft_of(method), budget, settings_text(self.settings_of(method))

    def model_of(self, method: str) -> str | None:
        """Return the model that a method asks to plan or to write, if it asks one."""
        if method in FOCUS:
            return None if self.draft == "offline" else self.draft
        return self.compressor or self.draft if method in _WRITERS else None

    @property
    def computes(self) -> bool:
        """True if the methods wait for no model: more cores then make the replay faster, more runs at once do not."""
        return self.draft in (None, "offline") and self.compressor is None

    def can_ask_again(self, method: str) -> bool:
        """True if a model that gave no answer can be asked again; recorded sketches cannot."""
        return method not in FOCUS or self.model_of(method) is not None

    def draft_of(self, method: str) -> str:
        """Return the draft's name in records."""
        name, _, matched = method.partition("@")
        return short_name(self.draft or "") if (matched or name) in FOCUS else ""


class Methods:
    """Makes methods for runs; drafts and embedders are loaded once."""

    def __init__(self, settings: ReplaySettings) -> None:
        self.settings = settings
        self.embed: Embed = embedder_from(settings.embedder)
        self._draft: DraftModel | None = None

    def make(self, name: str, run: Run, budget: int, sketcher: DraftModel | None = None) -> Method:
        """Return a fresh method for this run. A `sketcher` takes the draft's place, and is not asked ahead of time."""
        if run.format != "chat_completions" and name not in ANY_FORMAT:
            others = f"--methods {' '.join(ANY_FORMAT)}"
            raise ConfigError(f"{name} reads only Chat Completions, but {run} is {run.format}: use {others}")
        settings = self.settings
        if name in FOCUS:
            config = settings.config_of(name, budget)
            return ReplayedFocus(name, sketcher or self.draft(), config, run.format, ahead=sketcher is None)
        return method_from(
            name,
            MethodSettings(
                budget=budget, draft=settings.draft, compressor=settings.compressor, embedder=settings.embedder
            ),
        )()

    def draft(self) -> DraftModel:
        """Return the draft that sketches plans."""
        if self.settings.draft is None:
            raise ConfigError("there are no recorded sketches to play back: name a draft")
        if self._draft is None:
            self._draft = patient(self.settings.draft, self.settings.deadline)
        return self._draft


class ReplayedFocus:
    """FOCUS through a session that does not weigh money.

    It makes an event whenever the history is over budget and has grown enough. The paper's algorithm makes one whenever
    it is over budget, and requests no sketches ahead of time; `ahead=False` turns that off for the shipped one too.
    """

    def __init__(self, name: str, draft: DraftModel, config: FocusConfig, format: str, *, ahead: bool = True) -> None:
        self.name = name
        options: SessionOptions = {}
        if name != SHIPPED or not ahead:
            options["ahead"] = 1.0
        if name != SHIPPED:
            options["growth"] = 0.0
        self._session = Focus(draft, config=config).session(**options)
        self._format = format

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return await compressed_by(self._session, messages, self._format)

    def close(self) -> None:
        self._session.close()


def close_method(method: Method) -> None:
    """Close a method that holds something."""
    if isinstance(method, ReplayedFocus):
        method.close()


def short_name(draft: str) -> str:
    """Return the draft's name, without the folder for a model on this machine."""
    return re.sub(r"(^|:)(transformers|llama-cpp):[^?]*[/\\]", r"\1\2:", draft)
