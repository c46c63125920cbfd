"""The benchmarks by name, one adapter per file, with the scripted agents and drafts that need no model."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from focusctx.errors import ConfigError
from focusctx.types import DraftModel

from ..protocols import Benchmark, Model, Options

_NAMES = ("office", "qa8", "tau2", "officebench", "appworld", "webvoyager")
"""Modules of this package. Each has `benchmark(options) -> Benchmark`; `scripted() -> Model` if there
is an agent that can do its tasks without a model; `scripted_draft() -> DraftModel` if there is a draft for it."""


_OFFICE_SETTINGS = ("tasks", "rules")


def benchmark_names() -> list[str]:
    return list(_NAMES)


def benchmark_from(name: str, options: Options | None = None) -> Benchmark:
    make: Callable[[Options], Benchmark] = _module(name).benchmark
    options = options or Options()
    if name == "office":  # the others check their own
        options.check(name, _OFFICE_SETTINGS)
        if options.split:
            raise ConfigError(f"office has no splits, got {options.split!r}: another --seed makes other tasks")
    return make(options)


def scripted_model(name: str) -> Model:
    make: Callable[[], Model] | None = getattr(_module(name), "scripted", None)
    if make is None:
        raise ConfigError(f"benchmark {name} has no scripted agent: name a model")
    return make()


def scripted_draft(name: str) -> DraftModel:
    make: Callable[[], DraftModel] | None = getattr(_module(name), "scripted_draft", None)
    if make is None:
        raise ConfigError(f"benchmark {name} has no scripted draft: name one")
    return make()


def _module(name: str) -> ModuleType:
    if name not in _NAMES:
        raise ConfigError(f"unknown benchmark {name!r}; known: {', '.join(_NAMES)}")
    return import_module(f".{name}", __package__)
