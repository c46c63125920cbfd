"""What a wire format says about one message: the only language between the formats and the splitter."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ..errors import MessageError
from ..types import Message

MEDIA_TOKENS = 1000
"""What an image, a sound or a file counts for: providers differ, and its base64 text is not what is billed."""

PLACEHOLDER = "[output omitted]"
"""Stands where an observation was, in a skeleton."""


_CARRIERS = frozenset(
    {
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    }
)
"""The fields of a message that say something, beside its content."""


class Kind(Enum):
    FRAME = "frame"
    """Belongs to no step and is never dropped: system prompts, and whatever we do not know."""
    WORDS = "words"
    """The user speaks (unless the reading of user messages says it is an observation)."""
    TURN = "turn"
    """The model speaks or acts."""
    RESULT = "result"
    """A tool answers."""


class Part(NamedTuple):
    """A message, or some of its content blocks, with the same owner."""

    kind: Kind
    text: str = ""
    """The words, or the observation."""
    thought: str = ""
    action: str = ""
    calls: tuple[str, ...] = ()
    """Ids of tool calls that wait for a result from outside."""
    answers: tuple[str, ...] = ()
    """Ids of the calls this is the result of."""
    counted: tuple[str, ...] = ()
    """The texts whose tokens make up its size."""
    extra_tokens: int = 0
    """Estimated size of what is no text."""
    holds: tuple[str, ...] = ()
    """Ids of calls the provider itself goes on with: until it answers them, all that comes is one step."""
    goes_on: bool = False
    """A result after which the provider goes on with the same turn."""
    reasons: bool = False
    """Holds hidden reasoning that later calls of the same turn may rest on."""
    leads: bool = False
    """Hidden reasoning alone: what it led to comes next and may not be parted from it."""
    stored: bool = False
    """Only a reference: the provider holds the item, and its text is not seen."""
    unseen_calls: int = 0
    """Calls in it whose ids are not seen: the outputs that answer them name calls that nothing shows."""
    program: str | None = None
    """The program, run by the provider, that makes this call: its calls stay with it."""
    static: bool = False
    """A system prompt: not held against the budget."""
    blocks: tuple[int, ...] | None = None
    """Which content blocks of the message it is; None for all of it."""


class Wire(Protocol):
    """One provider's message format."""

    name: str
    turns_run_on: bool
    """Consecutive model messages are one turn."""

    def claims(self, message: Message) -> bool:
        """Whether only this format can have produced the message."""

    def knows(self, message: Message) -> bool:
        """Whether the message is of a kind that this format has; one it does not know stays where it is."""

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        """The message in parts; MessageError with its position when it is malformed."""

    def blank(self, message: Message, blocks: frozenset[int] | None) -> Message:
        """A copy whose tool results (those blocks, or all) are placeholders; anything else stays."""


def kind_of(value: object) -> str:
    """A JSON value's type in the words of JSON, for error messages."""
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "boolean"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def role_of(message: Message, position: int) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise MessageError(f"'role' must be a string, got {kind_of(role)}", position)
    return role


def has_content(message: Message, roles: Collection[str]) -> bool:
    """Whether the message is of one of these roles and holds something that is read."""
    return message.get("role") in roles and ("content" in message or not _CARRIERS.isdisjoint(message))


def blocks_of(message: Message, position: int) -> str | Sequence[Mapping[str, Any]]:
    """The content: text, or a checked list of blocks; null reads as no text."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        problem = f"'content' must be a string, an array of blocks or null, got {kind_of(content)}"
        raise MessageError(problem, position)
    for number, block in enumerate(content):
        if not (isinstance(block, Mapping) and isinstance(block.get("type"), str)):
            problem = f"content block {number} must be an object with a 'type', got {kind_of(block)}"
            raise MessageError(problem, position)
    blocks: Sequence[Mapping[str, Any]] = content
    return blocks


def typed_blocks(message: Message) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The content blocks that have a type, unchecked: for telling formats apart before anything is read."""
    content = message.get("content")
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping) and isinstance(kind := block.get("type"), str):
            yield kind, block


def text_of(value: object) -> str:
    """A text field that servers may leave out or set to null."""
    return value if isinstance(value, str) else ""


def join(pieces: Sequence[str]) -> str:
    """The pieces as one text; a single piece stays the same object, so its remembered count is found."""
    present = list(filter(None, pieces))
    return present[0] if len(present) == 1 else "\n".join(present)


def texts_of(content: str | Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """The texts of a message's content, and how many of its blocks hold none (images, sounds, files)."""
    if isinstance(content, str):
        return ([content] if content else []), 0
    texts = [text_of(block.get("text", block.get("refusal"))) for block in content]
    silent = sum(not ("text" in block or "refusal" in block) for block in content)
    return [text for text in texts if text], silent


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def omitted(content: object) -> object:
    """The placeholder for an observation, unless the observation is shorter than it."""
    short = not content or (isinstance(content, str) and len(content) <= len(PLACEHOLDER))
    return content if short else PLACEHOLDER
