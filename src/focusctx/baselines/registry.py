"""From a method's name, as the bench's tables have it, to a factory that makes one for every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .acon import Acon, read_guideline
from .ask import PATIENCE, Ask, Writer, ask_from, patient
from .embedders import embedder_from
from .fifo import Fifo
from .focus import FocusMethod
from .llmlingua import MODEL, LLMLingua, LLMLingua2
from .masking import Masking
from .method import Factory
from .none import NoCompression
from .prompting import Prompting
from .retrieval import Retrieval


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """What the methods need to know. Each looks at its own part only."""

    budget: int = 4096
    """δ, of all methods but fifo and masking, which have none."""
    draft: Writer | None = None
    """Who sketches plans for focus."""
    rollouts: int = 3
    threshold: float = 0.3
    compressor: Writer | None = None
    """Who writes summaries for prompting and acon; the draft, unless named."""
    embedder: str | Callable[[Sequence[str]], Any] | None = None
    """For retrieval; see `embedders`."""
    llmlingua_model: str = MODEL
    llmlingua_rate: float = 0.3
    llmlingua_device: str = "cpu"
    guideline_ut: str | Path | None = None
    """The file with the guideline of acon-ut …"""
    guideline_utco: str | Path | None = None
    """… and of acon-utco. `acon_optimiser` makes them."""


def method_from(name: str, settings: MethodSettings | None = None) -> Factory:
    """A factory for the method. What is wrong with the settings shows here, not in the middle of a run."""
    if name not in _MAKERS:
        raise ConfigError(f"unknown method {name!r}; known: {', '.join(ALL)}")
    factory = _MAKERS[name](settings or MethodSettings())
    factory()
    return factory


def _retrieval(settings: MethodSettings) -> Factory:
    if settings.embedder is None:
        raise ConfigError("retrieval needs an embedder: an embedding model, or `words`, which needs none")
    return partial(Retrieval, embedder_from(settings.embedder), settings.budget)


def _llmlingua(settings: MethodSettings) -> Factory:
    shorten = LLMLingua2(settings.llmlingua_model, settings.llmlingua_rate, settings.llmlingua_device)
    return partial(LLMLingua, shorten, settings.budget)


def _prompting(settings: MethodSettings) -> Factory:
    return partial(Prompting, _compressor("prompting", settings), settings.budget)


def _acon(name: str, settings: MethodSettings) -> Factory:
    path = settings.guideline_ut if name == "acon-ut" else settings.guideline_utco
    if path is None:
        raise ConfigError(f"{name} needs the file of a guideline optimised for the benchmark: see docs/baselines.md")
    return partial(Acon, _compressor(name, settings), read_guideline(path), settings.budget, name=name)


def _focus(defensive: bool, settings: MethodSettings) -> Factory:
    if settings.draft is None:
        raise ConfigError("focus needs a draft: a model, or `offline`, which needs none")
    return partial(
        FocusMethod,
        patient(settings.draft),
        settings.budget,
        rollouts=settings.rollouts,
        threshold=settings.threshold,
        defensive=defensive,
        deadline=PATIENCE,
    )


def _compressor(name: str, settings: MethodSettings) -> Ask:
    writer = settings.draft if settings.compressor is None else settings.compressor
    if writer is None or writer == "offline":
        raise ConfigError(f"{name} needs a model that writes summaries: name a compressor")
    return ask_from(writer)


_MAKERS: dict[str, Callable[[MethodSettings], Factory]] = {
    "none": lambda _: NoCompression,
    "fifo": lambda _: Fifo,
    "retrieval": _retrieval,
    "llmlingua": _llmlingua,
    "prompting": _prompting,
    "masking-10": lambda _: partial(Masking, 10),
    "masking-5": lambda _: partial(Masking, 5),
    "masking-3": lambda _: partial(Masking, 3),
    "acon-ut": partial(_acon, "acon-ut"),
    "acon-utco": partial(_acon, "acon-utco"),
    "focus-o": partial(_focus, False),
    "focus-d": partial(_focus, True),
}

ALL = tuple(_MAKERS)
"""Every method, in the order of the paper's tables."""
