"""Size of messages as the paper counts: cl100k_base, without the system prompt, like the tokens a budget limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from focusctx.tokens import Counter
from focusctx.types import Message
from focusctx.wire import Wire, wire_named

_PLAIN = frozenset({"role", "content", "tool_calls", "tool_call_id"})


def size(messages: Sequence[Message], *, with_system: bool = False) -> int:
    """Return the tokens of Chat Completions messages."""
    return sum(_size(message, with_system) for message in messages)


def count(text: str) -> int:
    """Return the cl100k tokens of a text."""
    return _counter().count(text)


def _size(message: Message, with_system: bool) -> int:
    content = message.get("content")
    if not message.keys() <= _PLAIN or not (content is None or isinstance(content, str)):
        return _count(message, with_system)
    # The same messages recur at every step, so counts are cached by their contents; the messages are not hashable.
    calls = message.get("tool_calls") or ()
    functions = tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls)
    return _count_plain(message["role"], content, functions, with_system)


@lru_cache(maxsize=8192)
def _count_plain(role: str, content: str | None, functions: tuple[tuple[str, str], ...], with_system: bool) -> int:
    calls = [{"id": "", "function": {"name": name, "arguments": arguments}} for name, arguments in functions]
    return _count({"role": role, "content": content, "tool_calls": calls, "tool_call_id": ""}, with_system)


def _count(message: Message, with_system: bool) -> int:
    parts = [part for part in _wire().read(message, 0) if with_system or not part.static]
    return sum(sum(map(count, part.counted)) + part.extra_tokens for part in parts)


@cache
def _wire() -> Wire:
    return wire_named("chat_completions")


@cache
def _counter() -> Counter:
    return Counter("cl100k_base")
