"""Calls and results in ADK's contents: matched to each other, also where one agent is told what another one did.

After `transfer_to_agent`, ADK shows the other agents' turns and results as user contents, written as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from .parts import Piece

_CALLED = re.compile(r"\[[^\]]+\] called tool `(.*?)` with parameters:")
_RETURNED = re.compile(r"\[[^\]]+\] `(.*?)` tool returned result:")
_SAID = re.compile(r"\[[^\]]+\] (said|thought):")


class Calls:
    """The ids of calls. Gemini is sent none: there, calls are answered by name, in the order they were made."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str | None, str]] = []

    def made(self, call: FunctionCall) -> str:
        self._made += 1
        self._open.append((call.name, call.id or f"call_{self._made}"))
        return self._open[-1][1]

    def answered(self, response: FunctionResponse) -> str:
        """The id of the call that is answered; empty if there is none."""
        for call in self._open:
            name, known = call
            if response.id == known or (response.id is None and response.name == name):
                self._open.remove(call)
                return known
        return response.id or ""


def is_retold(content: Content) -> bool:
    first, *rest = content.parts or [Part()]
    texts = [part.text for part in rest if part.text is not None]
    told = all(_SAID.match(text) or _CALLED.match(text) or _RETURNED.match(text) for text in texts)
    return (first.text or "").startswith("For context:") and bool(texts) and told


def retold_pieces(place: int, content: Content, calls: Calls) -> Iterator[Piece]:
    """The results in a retold content, a piece each, or the one turn; the part that introduces them goes with it."""
    texts = [part.text or "" for part in content.parts or ()]
    results = [(number, found[1]) for number, text in enumerate(texts) if (found := _RETURNED.match(text))]
    answered = [calls.answered(FunctionResponse(name=name)) for _, name in results]
    if results and all(answered):
        ends = [*(number for number, _ in results[1:]), len(texts)]
        begin = 0
        for call, end in zip(answered, ends, strict=True):
            said = "\n".join(texts[begin:end])
            yield Piece(place, tuple(range(begin, end)), {"role": "tool", "tool_call_id": call, "content": said})
            begin = end
        return
    turn: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts)}
    if names := [found[1] for text in texts if (found := _CALLED.match(text))]:
        turn["tool_calls"] = [_call(name, calls) for name in names]
    yield Piece(place, tuple(range(len(texts))), turn)


def _call(name: str, calls: Calls) -> dict[str, Any]:
    made = calls.made(FunctionCall(name=name))
    return {"id": made, "type": "function", "function": {"name": name, "arguments": ""}}
