"""One thing a scripted model says in answer to one request: what every spelling of it is made from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
CREATED = 1_790_000_000


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: dict[str, Any]
    id: str = ""
    """Made by the provider when empty, unique per response."""
    custom: str = ""
    """What a custom tool is given instead of arguments: plain text (Responses only)."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    """A thinking block with its signature (Anthropic) or a reasoning item (Responses); chat has no place for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, and the request it answers."""

    say: Say
    number: int
    request: Mapping[str, Any]
    input_tokens: int
    cached_tokens: int
    chunk: int

    @property
    def model(self) -> str:
        return str(self.request.get("model", "scripted"))

    @property
    def output_tokens(self) -> int:
        said = [
            self.say.text,
            self.say.thinking,
            *(call.custom or json.dumps(call.arguments) for call in self.say.calls),
        ]
        return 1 + sum(map(len, said)) // 4

    @property
    def thinking_tokens(self) -> int:
        return len(self.say.thinking) // 4

    def id_of(self, place: int, prefix: str) -> str:
        return self.say.calls[place].id or f"{prefix}_{self.number:06d}{place:02d}"

    def pieces(self, text: str) -> Iterator[str]:
        return (text[start : start + self.chunk] for start in range(0, len(text), self.chunk))


def event(data: Json, name: str = "") -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()
