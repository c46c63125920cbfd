"""The benchmarks by name, one adapter per file, with the scripted agents and drafts that need no model."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from focusctx.errors import ConfigError
from focusctx.types import DraftModel

from ..protocols import Benchmark, Model, Options

NAMES = ("office", "qa8", "tau2", "officebench", "appworld", "webvoyager")
"""Modules of this package. Each has `benchmark(options) -> Benchmark`; `scripted() -> Model` if there
is an agent that can do its tasks without a model; `scripted_draft() -> DraftModel` if there is a draft for it."""


def benchmark_from(name: str, options: Options | None = None) -> Benchmark:
    benchmark: Benchmark = _module(name).benchmark(options or Options())
    return benchmark


def scripted_model(name: str) -> Model:
    if not hasattr(module := _module(name), "scripted"):
        raise ConfigError(f"benchmark {name} has no scripted agent: name a model")
    model: Model = module.scripted()
    return model


def scripted_draft(name: str) -> DraftModel:
    if not hasattr(module := _module(name), "scripted_draft"):
        raise ConfigError(f"benchmark {name} has no scripted draft: name one")
    draft: DraftModel = module.scripted_draft()
    return draft


def _module(name: str) -> ModuleType:
    if name not in NAMES:
        raise ConfigError(f"unknown benchmark {name!r}; known: {', '.join(NAMES)}")
    return import_module(f".{name}", __package__)
