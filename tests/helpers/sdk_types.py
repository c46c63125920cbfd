"""Message lists held against the official SDKs' own types, with nothing left open.

The SDKs describe requests as TypedDicts, which check nothing at run time, and pydantic reads those leniently:
unknown keys pass, and an `Iterable` field is not looked into until someone iterates. So each type is copied
here once with its loose ends closed: extra keys are errors, every `Iterable` is a list, no value is coerced,
and only what JSON can hold is left (the SDKs also take open files and their own response objects).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from typing import IO, Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from anthropic.types import MessageParam
from openai._types import SequenceNotStr
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from helpers.ai_sdk_types import ModelMessage

_TYPES = {
    "chat_completions": ChatCompletionMessageParam,
    "responses": ResponseInputItemParam,
    "anthropic": MessageParam,
    "ai_sdk": ModelMessage,
}
_TAGS = ("type", "role")
"""The fields whose fixed values tell the members of a union apart."""


def sdk_errors(messages: Iterable[Mapping[str, Any]], format: str) -> list[str]:
    """Return the errors that the official SDK's types find in each message; empty when the list is fine.

    The SDKs of Gemini and Ollama are not installed here: the agents of `scripts/test-agents` run with those.
    """
    if format not in _TYPES:
        return []
    return [
        f"message {number}: {error}" for number, message in enumerate(messages) for error in _errors(message, format)
    ]


def _errors(message: Mapping[str, Any], format: str) -> Iterator[str]:
    """The errors of every type the message could be; none as soon as one type accepts it."""
    found = ["no type of the SDK has its 'type' and 'role'"]
    for tags, adapter in _members(format):
        if any(message.get(field) not in allowed for field, allowed in tags.items()):
            continue
        try:
            adapter.validate_python(message, strict=True)
        except ValidationError as error:
            found += [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)]
        else:
            return
    yield from found[1:] or found


@cache
def _members(format: str) -> list[tuple[dict[str, tuple[Any, ...]], TypeAdapter[Any]]]:
    """Each type of the format with the tags it allows: trying all thirty for every message would be slow."""
    return [(_tags(member), TypeAdapter(closed(member))) for member in get_args(_TYPES[format])]


def _tags(typed_dict: Any) -> dict[str, tuple[Any, ...]]:
    """The fixed values of a type's tag fields; None among them where the field may be missing."""
    tags: dict[str, tuple[Any, ...]] = {}
    for field, annotation in get_type_hints(typed_dict, include_extras=True).items():
        if field in _TAGS and (values := _literals(annotation)):
            tags[field] = values if get_origin(annotation) is Required else (*values, None)
    return tags


def _literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for argument in get_args(annotation) for value in _literals(argument))


@cache
def closed(annotation: Any) -> Any:
    """The same type with extra keys forbidden and everything iterable a list."""
    if is_typeddict(annotation):
        return _closed_dict(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Iterable, Sequence, SequenceNotStr, list):
        return list[closed(arguments[0])]
    if origin is Annotated:
        return closed(arguments[0])
    if origin is Union:
        return _closed_union([argument for argument in arguments if _is_json(argument)])
    if origin is dict:
        return dict[closed(arguments[0]), closed(arguments[1])]
    return annotation


def _closed_union(members: list[Any]) -> Any:
    """The union, told apart by `type` where that is possible: errors then speak of one member, not of all."""
    tagged = [member for member in members if is_typeddict(member) and "type" in _tags(member)]
    values = [value for member in tagged for value in _tags(member)["type"]]
    if len(tagged) < 2 or len(values) != len(set(values)) or None in values:
        return Union[tuple(map(closed, members))]  # noqa: UP007
    told_apart = Annotated[Union[tuple(map(closed, tagged))], Field(discriminator="type")]  # noqa: UP007
    return Union[(told_apart, *(closed(member) for member in members if member not in tagged))]


def _is_json(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_json(get_args(annotation)[0])
    if get_origin(annotation) is Union:
        return any(map(_is_json, get_args(annotation)))
    if isinstance(annotation, type):
        return not issubclass(annotation, BaseModel)
    return get_origin(annotation) not in (IO, PathLike)


def _closed_dict(typed_dict: Any) -> Any:
    fields = {}
    for name, annotation in get_type_hints(typed_dict, include_extras=True).items():
        marker = get_origin(annotation)
        bare = get_args(annotation)[0] if marker in (Required, NotRequired) else annotation
        needed = marker is Required or (typed_dict.__total__ and marker is not NotRequired)
        fields[name] = Required[closed(bare)] if needed else NotRequired[closed(bare)]
    strict = TypedDict(typed_dict.__name__, fields)  # type: ignore[misc,operator]
    strict.__pydantic_config__ = ConfigDict(extra="forbid")
    return strict
