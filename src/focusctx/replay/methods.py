"""The methods of a replay: those of the bench by name, and `focus`, as it is shipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..baselines.embedders import Embed, embedder_from
from ..baselines.focus import compressed_by
from ..baselines.method import Compressed, Method
from ..baselines.patience import patient
from ..baselines.registry import MethodSettings, method_from, method_names
from ..compressor import Focus
from ..config import FocusConfig, SessionOptions, Settings
from ..errors import ConfigError
from ..types import DraftModel, Message
from .files import short_name
from .runs import Run
from .sketches import Recorded, RecordedDraft

SHIPPED = "focus"
FOCUS = ("focus-o", "focus-d", SHIPPED)
ANY_FORMAT = ("none", *FOCUS)
"""Methods that read every format; the others read Chat Completions only."""

_WRITERS = ("prompting", "acon-ut", "acon-utco")
_NO_CHOICE = frozenset(
    {
        *("budget", "tokens", "observations", "pin", "draft_window", "deadline", "breaker_failures", "breaker_pause"),
        *("temperature", "sketch_tokens", "seed", "confidence", "m_max"),
    }
)
"""Settings that a record names elsewhere, or that are never varied."""


class FocusSession:
    """FOCUS run through a session."""

    def __init__(self, name: str, draft: DraftModel, config: FocusConfig, format: str, options: SessionOptions) -> None:
        self.name = name
        self._session = Focus(draft, config=config).session(**options)
        self._format = format

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return await compressed_by(self._session, messages, self._format)

    def close(self) -> None:
        self._session.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Settings of the methods, the same for all runs."""

    methods: tuple[str, ...]
    draft: str | None = "offline"
    recorded: str | None = None
    """Name of the draft that made the recorded sketches, which are played where they exist. Elsewhere `draft` is asked;
    if that is None, such an event fails."""
    rollouts: int = 3
    threshold: float = 0.3
    changes: tuple[tuple[str, Any], ...] = ()
    """Settings of `FocusConfig` in which `focus` differs from the shipped ones."""
    compressor: str | None = None
    embedder: str = "words"
    deadline: float = 600.0
    """Seconds that all sketches of an event may take."""
    model: str = "gpt-4.1"
    """The model whose prices apply to the agent's calls."""
    matched: bool = True
    """True if the comparators walk too, with as much room as each FOCUS left."""

    def check(self, more: Sequence[str] = ()) -> None:
        """Refuse unknown methods and settings before the replay begins; `more` are additional known methods."""
        known = (*method_names(), SHIPPED, *more)
        for name in self.methods:
            if name not in known:
                raise ConfigError(f"unknown method {name!r}; known: {', '.join(known)}")
        self.config_of(SHIPPED, 0)

    def config_of(self, method: str, budget: int) -> FocusConfig:
        """Return the settings of a FOCUS. Replays ignore pauses: a failed draft is asked again at the next event."""
        told: Settings = {"budget": budget, "rollouts": self.rollouts, "threshold": self.threshold}
        told |= {"deadline": self.deadline, "breaker_pause": 0.0}
        if method == SHIPPED:
            return FocusConfig().with_changes(**{**told, **dict(self.changes)})
        return FocusConfig.paper(defensive=method == "focus-d", **told)

    def settings_of(self, method: str) -> dict[str, Any]:
        """Return the settings for a record: only those that its method reads."""
        name, _, whose = method.partition("@")
        own: dict[str, Any] = {"embedder": self.embedder} if name == "retrieval" else {}
        if name in _WRITERS:
            own = {"compressor": self.compressor or self.draft}
        focus = whose or name
        if focus == SHIPPED:
            left_out = _NO_CHOICE - dict(self.changes).keys()
            own |= {key: value for key, value in asdict(self.config_of(focus, 0)).items() if key not in left_out}
        elif focus in FOCUS:
            own |= {"rollouts": self.rollouts, "threshold": self.threshold}
        return own

    def model_of(self, method: str) -> str | None:
        """Return the model that plans or writes for a method, or None."""
        if method in FOCUS:
            return None if self.draft == "offline" else self.draft
        return self.compressor or self.draft if method in _WRITERS else None

    def can_ask_again(self, method: str) -> bool:
        """True if a model that gave no answer may answer another time; recorded sketches never change."""
        return method not in FOCUS or self.model_of(method) is not None

    def draft_of(self, method: str) -> str:
        """Return the draft's name for records, without the folder of a model on this machine."""
        name, _, whose = method.partition("@")
        if (whose or name) not in FOCUS:
            return ""
        return " + ".join(filter(None, (self.recorded, short_name(self.draft or ""))))


class Workshop:
    """Makes methods for runs; drafts and embedders are made once for all of them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.embed: Embed = embedder_from(setup.embedder)
        self._draft: DraftModel | None = None

    def method(self, name: str, run: Run, budget: int, recorded: Sequence[Recorded] = ()) -> Method:
        """Make a new method for this run; `recorded` are sketches to play."""
        if run.format != "chat_completions" and name not in ANY_FORMAT:
            others = f"--methods {' '.join(ANY_FORMAT)}"
            raise ConfigError(f"{name} reads Chat Completions only, {run} is {run.format}: {others}")
        setup = self.setup
        if name in FOCUS:
            # No model is named, so money is not weighed: being over budget is enough. In the paper it always is,
            # whatever the growth, and nothing is asked ahead of time; recorded sketches fit no earlier history either.
            options: SessionOptions = {}
            if recorded or name != SHIPPED:
                options["ahead"] = 1.0
            if name != SHIPPED:
                options["growth"] = 0.0
            return FocusSession(name, self._sketcher(run, recorded), setup.config_of(name, budget), run.format, options)
        settings = MethodSettings(
            budget=budget, draft=setup.draft, compressor=setup.compressor, embedder=setup.embedder
        )
        return method_from(name, settings)()

    def _sketcher(self, run: Run, recorded: Sequence[Recorded]) -> DraftModel:
        if self._draft is None and self.setup.draft is not None:
            self._draft = patient(self.setup.draft, self.setup.deadline)
        if recorded or self._draft is None:
            return RecordedDraft(run, recorded, self._draft)
        return self._draft
