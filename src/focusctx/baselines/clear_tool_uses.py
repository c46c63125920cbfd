"""Tool-result clearing, as Claude's context editing and LangChain's `ClearToolUsesEdit` offer it. No model.

When the history is larger than `trigger`, the results of all tool calls but the newest `keep` become a placeholder.
What was cleared stays cleared, and clearing runs again once what is sent exceeds the trigger again. Results that the
agent has not seen yet, those of its newest turn, are never cleared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import FocusConfig
from ..errors import ConfigError
from ..invariants import violations
from ..pipeline.split import RecentHistories
from ..tokens import Counter
from ..types import Message
from .method import Compressed

_FORMAT = "chat_completions"


class ClearToolUses:
    name = "clear-tool-uses"

    def __init__(
        self,
        trigger: int = 100_000,
        *,
        keep: int = 3,
        clear_at_least: int = 0,
        exclude_tools: Sequence[str] = (),
        clear_tool_inputs: bool = False,
        placeholder: str = "[cleared]",
    ) -> None:
        """`clear_at_least`: clearing that would save fewer tokens than this is put off until it saves them."""
        if trigger < 0 or keep < 0 or clear_at_least < 0:
            raise ConfigError(
                f"trigger, keep and clear_at_least must be 0 or more, got {trigger!r}, {keep!r} and {clear_at_least!r}"
            )
        self._trigger, self._keep, self._at_least = trigger, keep, clear_at_least
        self._excluded = frozenset([exclude_tools] if isinstance(exclude_tools, str) else exclude_tools)
        self._clears_inputs = clear_tool_inputs
        self._placeholder = placeholder
        self._count = Counter().count
        self._recent = RecentHistories(FocusConfig(), self._count)
        self._cleared: dict[int, Message] = {}
        """Position in the history to the message that is sent instead."""
        self._saved = 0

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        if illegal := violations(messages, _FORMAT):
            why = f"the history is one the provider would refuse: {illegal[0]}"
            return Compressed(self._view(messages), failure=why)
        tokens = self._recent.read(messages, _FORMAT).tokens - self._saved
        cleared, saved = self._clearable(messages) if tokens > self._trigger else ({}, 0)
        if not cleared or saved < self._at_least:
            return Compressed(self._view(messages))
        self._cleared |= cleared
        self._saved += saved
        return Compressed(self._view(messages), happened=True)

    def _view(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self._cleared:
            return messages
        return [self._cleared.get(place, message) for place, message in enumerate(messages)]

    def _clearable(self, messages: Sequence[Message]) -> tuple[dict[int, Message], int]:
        """Return replacements for the results that may be cleared now, and the tokens that they save."""
        names = _tool_names(messages)
        results = [place for place, message in enumerate(messages) if message["role"] == "tool"]
        if not results:
            return {}, 0
        newest_turn = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
        old = results[: max(len(results) - self._keep, 0)]
        found: dict[int, Message] = {}
        saved = 0
        for place in old:
            message = messages[place]
            if place > newest_turn or place in self._cleared or names.get(message["tool_call_id"]) in self._excluded:
                continue
            gain = self._count(_text(message.get("content"))) - self._count(self._placeholder)
            if gain > 0:
                found[place] = {**message, "content": self._placeholder}
                saved += gain
        if self._clears_inputs and found:
            saved += self._clear_inputs(messages, found)
        return found, saved

    def _clear_inputs(self, messages: Sequence[Message], found: dict[int, Message]) -> int:
        """Add the calls of cleared results without their arguments; return the tokens saved."""
        ids = {message["tool_call_id"] for message in found.values()}
        saved = 0
        for place, message in enumerate(messages):
            calls = self._cleared.get(place, message).get("tool_calls") or []
            if not any(call["id"] in ids and call["function"]["arguments"] != "{}" for call in calls):
                continue
            cleared = [call for call in calls if call["id"] in ids]
            saved += sum(max(self._count(call["function"]["arguments"]) - self._count("{}"), 0) for call in cleared)
            found[place] = {**message, "tool_calls": [_emptied(call) if call in cleared else call for call in calls]}
        return saved


def _tool_names(messages: Sequence[Message]) -> dict[str, str]:
    """Return the tool that each call id belongs to."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return {call["id"]: call["function"]["name"] for call in calls if "function" in call}


def _emptied(call: Mapping[str, Any]) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": "{}"}}


def _text(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text", "")) for part in content)
