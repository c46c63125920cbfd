"""Method factories by name; each run gets a new method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import ConfigError
from ..plugins import INSTALL_BENCH, plugin, plugin_names
from .embedders import embedder_from
from .fifo import Fifo
from .focus import FocusMethod
from .masking import Masking
from .method import Factory
from .none import NoCompression
from .patience import PATIENCE, Writer, patient
from .retrieval import Retrieval
from .rollouts import requesting


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """Settings of all methods. Each reads only those it needs."""

    budget: int = 4096
    """δ, for all methods except fifo and masking, which have none."""
    draft: Writer | None = None
    """The model that sketches plans for focus."""
    rollouts: int = 3
    threshold: float = 0.3
    rollout_mode: str | None = None
    """How sketches are requested, see `rollouts`; None for the draft's own way, one request where it can."""
    compressor: Writer | None = None
    """The model that writes summaries, for methods that need one; the draft by default."""
    embedder: str | Callable[[Sequence[str]], Any] | None = None
    """The embedder for retrieval; see `embedders`."""


Maker = Callable[[MethodSettings], Factory]


def method_from(name: str, settings: MethodSettings | None = None) -> Factory:
    """Return a factory for the method. Wrong settings raise here, not in the middle of a run."""
    maker: Maker | None = _MAKERS.get(name) or plugin("methods", name)
    if maker is None:
        raise unknown_method(name, method_names())
    factory = maker(settings or MethodSettings())
    factory()
    return factory


def unknown_method(name: str, known: Sequence[str]) -> ConfigError:
    """Return the error for a method that is not among the known ones."""
    more = "" if plugin_names("methods") else f"; more come with focusctx-bench: {INSTALL_BENCH}"
    return ConfigError(f"unknown method {name!r}; known: {', '.join(known)}{more}")


def method_names() -> tuple[str, ...]:
    """Return the names of all installed methods."""
    return tuple(dict.fromkeys((*_MAKERS, *plugin_names("methods"))))


def _retrieval(settings: MethodSettings) -> Factory:
    if settings.embedder is None:
        raise ConfigError("retrieval needs an embedder: an embedding model, or `words`, which needs none")
    return partial(Retrieval, embedder_from(settings.embedder), settings.budget)


def _focus(defensive: bool, settings: MethodSettings) -> Factory:
    if settings.draft is None:
        raise ConfigError("focus needs a draft: a model, or `offline`, which needs none")
    return partial(
        FocusMethod,
        requesting(patient(settings.draft), settings.rollout_mode or "n"),
        settings.budget,
        rollouts=settings.rollouts,
        threshold=settings.threshold,
        defensive=defensive,
        deadline=PATIENCE,
    )


_MAKERS: dict[str, Maker] = {
    "none": lambda _: NoCompression,
    "fifo": lambda _: Fifo,
    "retrieval": _retrieval,
    "masking-10": lambda _: partial(Masking, 10),
    "masking-5": lambda _: partial(Masking, 5),
    "masking-3": lambda _: partial(Masking, 3),
    "focus-o": partial(_focus, False),
    "focus-d": partial(_focus, True),
}
