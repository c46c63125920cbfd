"""Rules without a plan: the newest turns, masked observations, cleared tool results, turns similar to the newest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..config import FocusConfig
from ..errors import ConfigError
from ..invariants import violations
from ..pipeline.split import RecentHistories
from ..tokens import Counter
from ..types import History, Message, Span, Usage
from .embedders import Embed
from .method import Choice, Compressed, NoChoice, Turnwise, droppable, problem_of, turn_as_text

_Vector: TypeAlias = Mapping[int, float]
"""A vector without its zeros: counts of words are mostly zeros."""


class NoCompression:
    """The whole history, at every step."""

    name = "none"

    async def compress(self, messages: Sequence[Message]) -> Compressed:
        return Compressed(messages)


class Fifo(Turnwise):
    """The newest turns, whatever their length."""

    name = "fifo"

    def __init__(self, turns: int = 5) -> None:
        super().__init__()
        if turns < 1:
            raise ConfigError(f"turns must be 1 or more, got {turns!r}")
        self._turns = turns

    async def choose(self, history: History) -> Choice | None:
        return Choice([span.index for span in history.spans[-self._turns :]])


class Masking(Turnwise):
    """All thoughts and actions, and the newest observations; older ones become `focusctx.wire.part.PLACEHOLDER`.

    An observation shorter than that stays.
    """

    def __init__(self, keep: int = 10) -> None:
        super().__init__()
        if keep < 1:
            raise ConfigError(f"keep must be 1 or more, got {keep!r}")
        self.name = f"masking-{keep}"
        self._keep = keep

    async def choose(self, history: History) -> Choice | None:
        observing = [span.index for span in history.spans if _has_observation(span)]
        masked = frozenset(observing[: -self._keep])
        return Choice([span.index for span in history.spans if span.index not in masked], masked=True)


def _has_observation(span: Span) -> bool:
    return any(message.get("role") != "assistant" for message in span.messages)


class ClearToolUses:
    """Clears tool results, as Claude's context editing and LangChain's `ClearToolUsesEdit` do.

    When the history is larger than `trigger`, the results of all tool calls but the newest `keep` become a placeholder.
    What was cleared stays cleared, and clearing runs again once what is sent exceeds the trigger again. Results that
    the agent has not seen yet, those of its newest turn, are never cleared.
    """

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
        if illegal := violations(messages, "chat_completions"):
            why = f"the history is one the provider would refuse: {illegal[0]}"
            return Compressed(self._view(messages), failure=why)
        tokens = self._recent.read(messages, "chat_completions").tokens - self._saved
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


class Retrieval(Turnwise):
    """The older turns most similar to the newest one, in order.

    It chooses again at every step at which the older turns have more tokens than the budget.
    """

    name = "retrieval"

    def __init__(self, embed: Embed, budget: int = 4096, *, top: int = 5) -> None:
        super().__init__()
        if budget < 0 or top < 1:
            raise ConfigError(f"budget must be 0 or more and top 1 or more, got {budget!r} and {top!r}")
        self._embed = embed
        self._budget = budget
        self._top = top
        self._vectors: dict[str, _Vector] = {}

    async def choose(self, history: History) -> Choice | None:
        older = droppable(history)
        if sum(span.tokens for span in older) <= self._budget or len(older) <= self._top:
            return None
        ranked, usage = await self.rank(history, older)
        return Choice([span.index for span in ranked[: self._top]], usage=usage)

    async def rank(self, history: History, older: Sequence[Span]) -> tuple[Sequence[Span], Usage]:
        """Return the turns, the one most similar to the newest turn first, and the usage of embedding them."""
        usage = await self._learn([*older, history.spans[-1]])
        query = self._vectors[turn_as_text(history.spans[-1])]
        # Among equally similar turns the newer ones come first.
        return sorted(older, key=lambda span: (-_product(query, self._vectors[turn_as_text(span)]), -span.index)), usage

    async def _learn(self, spans: Sequence[Span]) -> Usage:
        """Embed texts that were not embedded before."""
        new = list(dict.fromkeys(text for span in spans if (text := turn_as_text(span)) not in self._vectors))
        if not new:
            return Usage()
        try:
            embedded = await self._embed(new)
            vectors = [_unit(vector) for vector in embedded.vectors]
            if len(vectors) != len(new) or len({len(vector) for vector in embedded.vectors}) != 1:
                raise ValueError("the embedder must return one vector per text, all of the same length")
        except Exception as error:  # an embedder may raise anything, and the agent must go on
            raise NoChoice(problem_of(error), unanswered=True) from error
        self._vectors.update(zip(new, vectors, strict=True))
        return embedded.usage


def _unit(vector: Sequence[float]) -> _Vector:
    """Scale the vector to length 1, so that a product is a cosine. A zero vector (no words) is similar to nothing."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in vector))
    if not 0 < length < math.inf:
        return {}
    return {place: float(value) / length for place, value in enumerate(vector) if value}


def _product(one: _Vector, other: _Vector) -> float:
    if len(other) < len(one):
        one, other = other, one
    return sum(value * other[place] for place, value in one.items() if place in other)
