"""Convert results to JSON and back, without loss."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from . import types as values
from .errors import MessageError
from .types import Result


def to_json(value: Result) -> str:
    return json.dumps(encode(value), ensure_ascii=False)


def result_from_json(text: str) -> Result:
    try:
        result = decode(Result, json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise MessageError(f"not a saved Result: {error}") from error
    assert isinstance(result, Result)
    return result


def encode(value: Any) -> Any:
    """Convert any value in `types.py` to plain JSON data, including SDK objects among the messages.

    Fields that do not count in comparisons are left out: they can be computed again.
    """
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", exclude_unset=True)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value) if field.compare}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [encode(item) for item in value]
    return value


_LEAVES: dict[object, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (int, float)}


def _expect(fits: bool, wanted: object, data: object) -> None:
    if not fits:
        raise ValueError(f"expected {wanted}, got {data!r:.60}")


def decode(kind: Any, data: Any) -> Any:
    """Rebuild the value of the annotated type `kind` from the data that `encode` made."""
    if isinstance(kind, type) and is_dataclass(kind):
        _expect(isinstance(data, dict), kind.__name__, data)
        known = {field.name for field in fields(kind) if field.compare}
        hints = typing.get_type_hints(kind, {**vars(values), "Outlines": object})
        if unknown := set(data) - known:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r} in {kind.__name__}")
        return kind(**{name: decode(hints[name], item) for name, item in data.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind == values.Owner:
        return decode(tuple[int, ...] if isinstance(data, list) else int, data)
    if origin in (types.UnionType, typing.Union):
        return None if data is None else decode(next(a for a in arguments if a is not type(None)), data)
    if origin is typing.Literal:
        _expect(data in arguments, arguments, data)
    if kind in _LEAVES:
        _expect(isinstance(data, _LEAVES[kind]) and (kind is bool) == isinstance(data, bool), kind, data)
    if origin in (tuple, Sequence):
        _expect(isinstance(data, list), "array", data)
    if origin is Mapping or kind == values.Message:
        _expect(isinstance(data, dict), "object", data)
    if kind == values.Message:
        return data
    if origin in (tuple, Sequence):
        items = [decode(arguments[0], item) for item in data]
        return items if arguments[0] == values.Message and origin is Sequence else tuple(items)
    if origin is Mapping:
        return {arguments[0](key): decode(arguments[1], item) for key, item in data.items()}
    return data
