"""The parts of a message: the common form in which all wire formats pass messages to the splitter."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ..errors import MessageError
from ..types import Message
from .react import split_turn

MEDIA_TOKENS = 1000
"""Tokens counted for an image, a sound or a file: providers differ, and none bills its base64 text."""

PLACEHOLDER = "[output omitted]"
"""Replaces an observation that is masked as a whole."""

LONG_ARGUMENT = 400
"""Characters from which an argument of a call may be shown in part."""


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
"""Fields of a message, besides its content, that carry information."""


MODEL_ROLES = ("assistant", "model")
"""Roles of the model's own messages; Gemini has the second."""


class Kind(Enum):
    FRAME = "frame"
    """Belongs to no step and is never dropped: system prompts, and messages of unknown kind."""
    WORDS = "words"
    """The user speaks (unless the `observations` rule reads the message as an observation)."""
    TURN = "turn"
    """The model speaks or acts."""
    RESULT = "result"
    """A tool answers."""


@dataclass(frozen=True, slots=True)
class Part:
    """A message, or some of its content blocks, with one owner."""

    kind: Kind
    text: str = ""
    """The user's words, or the observation."""
    thought: str = ""
    action: str = ""
    calls: tuple[str, ...] = ()
    """Ids of tool calls that wait for a result from the agent."""
    made: tuple[str, ...] = ()
    """The calls in words, `name(arguments)`, in the order of `calls`."""
    answers: tuple[str, ...] = ()
    """Ids of the calls that this part answers."""
    counted: tuple[str, ...] = ()
    """The texts whose tokens make up its size."""
    extra_tokens: int = 0
    """Estimated tokens of content that is not text."""
    holds: tuple[str, ...] = ()
    """Ids of calls that the provider itself continues: until it answers them, everything that follows is one step."""
    goes_on: bool = False
    """True for a result after which the provider continues the same turn."""
    reasons: bool = False
    """True if it holds hidden reasoning that later calls of the turn may depend on."""
    leads: bool = False
    """True for hidden reasoning alone: the item it led to comes next and must stay with it."""
    stored: bool = False
    """True for a reference: the provider stores the item, and its text is not visible."""
    unseen_calls: int = 0
    """Number of calls in it whose ids are hidden: their outputs name calls that appear nowhere."""
    program: str | None = None
    """The program, run by the provider, that makes this call; its calls stay with it."""
    static: bool = False
    """True for a system prompt, which does not count against the budget."""
    blocks: tuple[int, ...] | None = None
    """Numbers of the message's content blocks that it covers; None for the whole message."""


class Role(Enum):
    """Says whose words a text is."""

    RESULT = "result"
    """A tool answers."""
    SPEECH = "speech"
    """The model speaks, or acts in plain text."""
    ARGUMENT = "argument"
    """A long argument of a call."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in a message that may be shown in part."""

    role: Role
    text: str
    call: str = ""
    """The id of the call that made it, or that it belongs to."""
    block: int | None = None
    """The number of the content block it is in; None if it is not in one."""
    media: int = 0
    """Number of images, sounds and files beside it; they go when it is shortened."""


class Wire(Protocol):
    """One provider's message format."""

    name: str
    title: str
    """Its name in sentences for people."""
    turns_run_on: bool
    """True if consecutive model messages are one turn."""

    def knows(self, message: Message) -> bool:
        """True if the format has messages of this kind; unknown ones stay where they are."""

    def read(self, message: Message, position: int) -> tuple[Part, ...]:
        """Split the message into parts; raise MessageError with its position if it is malformed."""

    def texts(self, message: Message) -> tuple[Text, ...]:
        """Return the texts of a step's message that may be shown in part, in order."""

    def with_texts(self, message: Message, texts: Mapping[int, str]) -> Message:
        """Return a copy with some of its texts replaced, named by their place in `texts(message)`."""

    def without_calls(self, message: Message, calls: Collection[str], mark: str) -> Message | None:
        """Return a copy of a model's message without these calls, with a mark for them; None if it cannot lose any."""

    def can_lose_calls(self, messages: Sequence[Message]) -> bool:
        """True if single calls of a step with these messages can be left out, each with its result.

        That takes a step with exactly one turn of the model.
        """
        return sum(message.get("role") in MODEL_ROLES for message in messages) == 1


def kind_of(value: object) -> str:
    """Return the name of a value's type in Python, for error messages."""
    return "None" if value is None else type(value).__name__


def role_of(message: Message, position: int) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise MessageError(f"'role' must be a str, got {kind_of(role)}", position)
    return role


def has_content(message: Message, roles: Collection[str]) -> bool:
    """True if the message has one of these roles and holds something that is read."""
    return message.get("role") in roles and ("content" in message or not _CARRIERS.isdisjoint(message))


def blocks_of(message: Message, position: int) -> str | Sequence[Mapping[str, Any]]:
    """Return the content: text, or a checked list of blocks; None counts as empty text."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        problem = f"'content' must be a str, a list of blocks or None, got {kind_of(content)}"
        raise MessageError(problem, position)
    for number, block in enumerate(content):
        if not (isinstance(block, Mapping) and isinstance(block.get("type"), str)):
            problem = f"content block {number} must be a dict with a 'type', got {kind_of(block)}"
            raise MessageError(problem, position)
    blocks: Sequence[Mapping[str, Any]] = content
    return blocks


def typed_blocks(message: Message) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the content blocks that have a type, unchecked: used to tell formats apart before reading."""
    content = message.get("content")
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping) and isinstance(kind := block.get("type"), str):
            yield kind, block


def only_blocks(message: Message, numbers: Collection[int]) -> Message:
    """Return a copy of the message with only these of its content blocks."""
    field = _block_field(message)
    return {**message, field: [message[field][number] for number in numbers]}


def without_blocks(message: Message, numbers: Collection[int]) -> Message | None:
    """Return a copy of the message without these content blocks; None if nothing is left, or it has no blocks."""
    stay = [number for number in block_numbers(message) if number not in numbers]
    return only_blocks(message, stay) if stay else None


def block_numbers(message: Message) -> range:
    """Return the numbers of the message's content blocks; none if its content is text."""
    blocks = message.get(_block_field(message))
    return range(len(blocks) if isinstance(blocks, list | tuple) else 0)


def _block_field(message: Message) -> str:
    return "content" if "content" in message or "parts" not in message else "parts"


def unmarked(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message without cache marks, and with a lone text block as plain text.

    Agents move the marks at every step, and a message stays the same with or without them. They wrap text in a block to
    mark it. Only places where marks are allowed are changed: a tool may have an argument of that name.
    """
    content = holder.get("content")
    if isinstance(content, list | tuple):
        content = [unmarked(block) if isinstance(block, Mapping) else block for block in content]
        if len(content) == 1 and isinstance(content[0], Mapping) and _is_plain_text(content[0]):
            content = content[0]["text"]
        holder = {**holder, "content": content}
    return {key: value for key, value in holder.items() if key != "cache_control"}


def is_by_user(message: Message) -> bool:
    """True if the message has the user's role; Gemini contents without a role are the user's, too."""
    return message.get("role") == "user" or ("parts" in message and message.get("role") is None)


def text_of(value: object) -> str:
    """Return a text field, or "" if a server left it out or set it to null."""
    return value if isinstance(value, str) else ""


def join(pieces: Sequence[str]) -> str:
    """Join the pieces into one text; a single piece stays the same object, so that its cached count is found."""
    present = list(filter(None, pieces))
    return present[0] if len(present) == 1 else "\n".join(present)


def thought_and_action(said: Sequence[str], actions: Sequence[str]) -> tuple[str, str]:
    """Return what the model said and did in a turn. Without calls, it may have written its action as text."""
    return (join(said), join(actions)) if actions else split_turn(join(said))


def texts_of(content: str | Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """Return the texts of a message's content, and the number of blocks without text (images, sounds, files)."""
    if isinstance(content, str):
        return ([content] if content else []), 0
    texts = [text_of(block.get("text", block.get("refusal"))) for block in content]
    silent = sum(not ("text" in block or "refusal" in block) for block in content)
    return [text for text in texts if text], silent


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def result_text(content: object, call: str = "", block: int | None = None) -> Text:
    """Return the text of a tool's result, given as a string or as content blocks."""
    if isinstance(content, str):
        return Text(Role.RESULT, content, call, block)
    blocks = [one for one in content if isinstance(one, Mapping)] if isinstance(content, list | tuple) else []
    texts, media = texts_of(blocks)
    return Text(Role.RESULT, join(texts), call, block, media)


def long_strings(value: object) -> Iterator[str]:
    """Yield the long strings in a call's arguments, at any depth."""
    if isinstance(value, str):
        if len(value) > LONG_ARGUMENT:
            yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from long_strings(inner)


def with_strings(value: Any, replacements: Iterator[str | None]) -> Any:
    """Return a copy of the arguments with the next replacement for each long string; None leaves one as it is."""
    if isinstance(value, str):
        new = next(replacements) if len(value) > LONG_ARGUMENT else None
        return value if new is None else new
    if isinstance(value, Mapping):
        return {key: with_strings(inner, replacements) for key, inner in value.items()}
    return [with_strings(inner, replacements) for inner in value] if isinstance(value, list | tuple) else value


def with_block_texts(
    blocks: Sequence[Mapping[str, Any]] | None,
    old: Sequence[Text],
    new: Mapping[int, str],
    change: Callable[[Mapping[str, Any], Sequence[str | None]], Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    """Return a copy of the blocks with new texts, named by their place in `old`.

    `change` gets a block and the new text for each of its texts, None for those that stay.
    """
    changed = list(blocks or ())
    for number in sorted({text.block for text in old if text.block is not None}):
        texts = [new.get(place) for place, text in enumerate(old) if text.block == number]
        if any(text is not None for text in texts):
            changed[number] = change(changed[number], texts)
    return changed


def with_mark(blocks: Sequence[Any], is_call: Callable[[Any], bool], mark: str) -> list[Any] | None:
    """Return the blocks with a text before the first call; None if there is no call."""
    place = next((place for place, block in enumerate(blocks) if is_call(block)), None)
    return None if place is None else [*blocks[:place], {"type": "text", "text": mark}, *blocks[place:]]


def loose_calls(message: Message) -> list[Mapping[str, Any]]:
    """Return a message's `tool_calls` unchecked, with empty ones in place of what is not an object."""
    calls = message.get("tool_calls")
    return [call if isinstance(call, Mapping) else {} for call in (calls if isinstance(calls, list | tuple) else ())]


def function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the function that one of the `tool_calls` names, with its arguments."""
    function = call.get("function")
    return function if isinstance(function, Mapping) else {}


def has_object(call: Mapping[str, Any]) -> bool:
    """True if the arguments of one of the `tool_calls` are an object, not JSON text."""
    return isinstance(function_of(call).get("arguments"), Mapping)


def parsed_arguments(arguments: object) -> Mapping[str, Any] | None:
    """Return a call's arguments as an object; None if they are not the JSON text of one."""
    if not isinstance(arguments, str) or len(arguments) <= LONG_ARGUMENT:
        return None
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def blanked(wire: Wire, message: Message, blocks: Collection[int] | None = None) -> Message:
    """Return a copy with placeholders for its tool results (those blocks, or all); everything else stays."""
    blank = {
        number: PLACEHOLDER
        for number, text in enumerate(wire.texts(message))
        if text.role is Role.RESULT
        and (blocks is None or text.block is None or text.block in blocks)
        and (text.media or len(text.text) > len(PLACEHOLDER))
    }
    return wire.with_texts(message, blank) if blank else message


def _is_plain_text(block: Mapping[str, Any]) -> bool:
    return block.keys() == {"type", "text"} and block["type"] == "text"
