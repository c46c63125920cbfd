"""Method factories by name; each run gets a new method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ConfigError
from ..plugins import INSTALL_BENCH, plugin, plugin_names
from .drafts import PATIENCE, Writer, patient, requesting
from .embedders import embedder_from
from .focus import DefaultFocus, FocusMethod, Matched, Rank, at_random, newest_first
from .method import Factory, Method
from .rules import ClearToolUses, Fifo, Masking, NoCompression, Retrieval


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
    """The way in which sketches are requested, see `drafts.requesting`; None for the draft's own way."""
    compressor: Writer | None = None
    """The model that writes summaries, for methods that need one; the draft by default."""
    embedder: str | Callable[[Sequence[str]], Any] | None = None
    """The embedder for retrieval; see `embedders`."""
    method_options: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of this method, by name: for focus and its controls those of `FocusConfig` and `Focus.session`,
    for clear-tool-uses those of `ClearToolUses`."""


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


def _default_focus(settings: MethodSettings) -> Factory:
    draft = patient(_draft_of(settings), settings.method_options.get("deadline", PATIENCE))
    return partial(DefaultFocus, draft, settings.budget, {"deadline": PATIENCE, **settings.method_options})


def _matched(name: str, rank: Callable[[MethodSettings], Rank], settings: MethodSettings) -> Factory:
    focus = _default_focus(settings)
    rank(settings)

    def make() -> Method:
        return Matched(name, focus(), rank(settings))

    return make


def _by_similarity(settings: MethodSettings) -> Rank:
    if settings.embedder is None:
        raise ConfigError("retrieval-matched needs an embedder: an embedding model, or `words`, which needs none")
    return Retrieval(embedder_from(settings.embedder)).rank


def _clear_tool_uses(settings: MethodSettings) -> Factory:
    known = ("trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs", "placeholder")
    if unknown := [name for name in settings.method_options if name not in known]:
        raise ConfigError(f"unknown setting {unknown[0]!r} of clear-tool-uses; known: {', '.join(known)}")
    return partial(ClearToolUses, **{"trigger": settings.budget, **settings.method_options})


def _draft_of(settings: MethodSettings) -> Writer:
    if settings.draft is None:
        raise ConfigError("focus needs a draft: a model, or `offline`, which needs none")
    return settings.draft


def _focus(defensive: bool, settings: MethodSettings) -> Factory:
    return partial(
        FocusMethod,
        requesting(patient(_draft_of(settings)), settings.rollout_mode or "n"),
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
    "focus": _default_focus,
    "random": partial(_matched, "random", lambda _: at_random()),
    "newest": partial(_matched, "newest", lambda _: newest_first),
    "retrieval-matched": partial(_matched, "retrieval-matched", _by_similarity),
    "clear-tool-uses": _clear_tool_uses,
}
