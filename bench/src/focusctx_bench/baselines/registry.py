"""Makers of this package's methods, which `focusctx.baselines.registry` finds by entry point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from focusctx.baselines.drafts import PATIENCE
from focusctx.baselines.focus import DefaultFocus
from focusctx.baselines.method import Factory, Method
from focusctx.baselines.registry import MethodSettings, method_from
from focusctx.errors import ConfigError

from .plan_note import PlanNote
from .summary import MODEL, Acon, Ask, LLMLingua, LLMLingua2, Prompting, RunningSummary, ask_from, read_guideline

ALL = (
    "none",
    "fifo",
    "retrieval",
    "llmlingua",
    "prompting",
    "masking-10",
    "masking-5",
    "masking-3",
    "acon-ut",
    "acon-utco",
    "focus-o",
    "focus-d",
)
"""The paper's methods, in the order of its tables: `--methods all`."""

MORE = ("focus", "random", "newest", "retrieval-matched", "clear-tool-uses", "summary", "focus-note")
"""Methods that the paper does not have: what focusctx does by default, controls, and what agents do today."""

KNOWN = (*ALL, *MORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings(MethodSettings):
    """Settings of all methods, those of this package included."""

    llmlingua_model: str = MODEL
    llmlingua_rate: float = 0.3
    guideline_ut: str | Path | None = None
    """File with the guideline of acon-ut. `focusctx bench acon` makes one."""
    guideline_utco: str | Path | None = None
    """File with the guideline of acon-utco."""


def focus_note(settings: MethodSettings) -> Factory:
    focus = method_from("focus", settings)

    def make() -> Method:
        one = focus()
        assert isinstance(one, DefaultFocus)
        return PlanNote(one)

    return make


def llmlingua(settings: MethodSettings) -> Factory:
    own = settings if isinstance(settings, BenchSettings) else BenchSettings()
    return partial(LLMLingua, LLMLingua2(own.llmlingua_model, own.llmlingua_rate), settings.budget)


def prompting(settings: MethodSettings) -> Factory:
    return partial(Prompting, _compressor("prompting", settings), settings.budget)


def summary(settings: MethodSettings) -> Factory:
    return partial(RunningSummary, _compressor("summary", settings), settings.budget)


def acon_ut(settings: MethodSettings) -> Factory:
    return _acon("acon-ut", settings.guideline_ut if isinstance(settings, BenchSettings) else None, settings)


def acon_utco(settings: MethodSettings) -> Factory:
    return _acon("acon-utco", settings.guideline_utco if isinstance(settings, BenchSettings) else None, settings)


def _acon(name: str, path: str | Path | None, settings: MethodSettings) -> Factory:
    if path is None:
        raise ConfigError(f"{name} needs the file of a guideline: `focusctx bench acon` makes one for a benchmark")
    return partial(Acon, _compressor(name, settings), read_guideline(path), settings.budget, name=name)


def _compressor(name: str, settings: MethodSettings) -> Ask:
    if unknown := set(settings.method_options) - {"deadline"}:
        raise ConfigError(f"unknown setting {min(unknown)!r} of {name}; known: deadline")
    writer = settings.draft if settings.compressor is None else settings.compressor
    if writer is None or writer == "offline":
        raise ConfigError(f"{name} needs a model that writes summaries: name one as compressor (--compressor)")
    return ask_from(writer, deadline=settings.method_options.get("deadline", PATIENCE))
