"""From a benchmark's name to the benchmark, and to the scripted agent that goes through it without a model."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from ...errors import ConfigError
from ..seams import Benchmark, Model, Options

_MODULES = {
    "office": ".office",
    "qa8": ".qa8",
}
"""Where each lives, below this package. A module has `benchmark(options) -> Benchmark`, and `scripted() -> Model` if
there is an agent that can do its tasks without a model."""


def benchmark_names() -> list[str]:
    return list(_MODULES)


def benchmark_from(name: str, options: Options | None = None) -> Benchmark:
    make: Callable[[Options], Benchmark] = _module(name).benchmark
    return make(options or Options())


def scripted_model(name: str) -> Model:
    make: Callable[[], Model] | None = getattr(_module(name), "scripted", None)
    if make is None:
        raise ConfigError(f"benchmark {name} has no scripted agent: name a model")
    return make()


def _module(name: str) -> ModuleType:
    if name not in _MODULES:
        raise ConfigError(f"unknown benchmark {name!r}; known: {', '.join(_MODULES)}")
    return import_module(_MODULES[name], __package__)
