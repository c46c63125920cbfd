"""Check settings against their declared types, so that a wrong one is refused before any request is sent.

Stricter than Python: True is not a number, infinity and NaN are refused, and "no" does not mean False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from .errors import ConfigError

_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", NoneType: "None"}


def check_types(declared: type, settings: Mapping[str, Any]) -> None:
    """Refuse settings whose name or type differs from what a dataclass or TypedDict declares."""
    types = _types_of(declared)
    for name, value in settings.items():
        if name not in types:
            raise ConfigError(f"unknown setting {name!r}; known: {', '.join(sorted(types))}")
        if not _fits(value, types[name]):
            raise ConfigError(f"{name} must be {_words(types[name], value)}, got {value!r}")


@cache
def _types_of(declared: type) -> dict[str, Any]:
    return get_type_hints(declared)


def _fits(value: object, declared: Any) -> bool:
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in arguments)
    if origin is Callable:
        return callable(value)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, arguments[0]) for each in value)
    if declared is int:
        return _is_number(value) and isinstance(value, Integral)
    if declared is float:
        return _is_number(value) and _is_finite(value)
    return isinstance(value, declared)


def _is_number(value: object) -> TypeGuard[Real]:
    return not isinstance(value, bool) and isinstance(value, Real)


def _is_finite(value: Real) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _words(declared: Any, value: object) -> str:
    """Describe the type in words, for an error about this value."""
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return " or ".join(_words(each, value) for each in arguments)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is Callable:
        return "a function"
    if origin is tuple:
        return f"a tuple of {arguments[0].__name__}"
    if declared is float and _is_number(value):
        return "a finite number"
    return _WORDS.get(declared) or str(declared.__name__)
