"""Anthropic Messages: the content blocks of all rounds, numbered consecutively.

Thinking is held until it is known what it led to, and only that of one round is shown: the API refuses a message that
combines signed thinking from two answers. (The agent's next request would contain such a message.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...session.recall import TOOL, query_of
from ...types import Message
from ...wire.anthropic import THINKING
from .sse import Json, event_of, object_in, objects_in, read_object
from .turn import Hold, Kind, RoundPart, Turn, add_usage

_FINISHED = ("tool_use", "end_turn", "stop_sequence")


class AnthropicReader:
    def __init__(self) -> None:
        self.id: str | None = None
        self.usage: Json = {}
        self.finished = False
        self._blocks: dict[int, Json] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def read(self, data: Json) -> None:
        kind = data.get("type")
        if kind == "message_start":
            message = object_in(data, "message")
            self.id = str(message.get("id"))
            self._spend(message)
        elif kind == "message_delta":
            self.finished = object_in(data, "delta").get("stop_reason") in _FINISHED
            self._spend(data)
        elif not isinstance(index := data.get("index"), int):
            return
        elif kind == "content_block_start":
            self._blocks[index] = dict(object_in(data, "content_block"))
        elif kind == "content_block_delta" and index in self._blocks:
            self._fill(index, object_in(data, "delta"))

    def _fill(self, index: int, delta: Json) -> None:
        """Add a delta to its block. All but two kinds of delta are named after the field they fill."""
        if delta.get("type") == "citations_delta":
            block = self._blocks[index]
            block["citations"] = [*objects_in(block, "citations"), delta.get("citation")]
            return
        for key, text in delta.items():
            if key != "type" and isinstance(text, str):
                field = "input" if key == "partial_json" else key
                self._pieces.setdefault((index, field), []).append(text)

    def _spend(self, holder: Json) -> None:
        """Update the usage: values of a later event replace those of an earlier one."""
        self.usage = self.usage | {key: value for key, value in object_in(holder, "usage").items() if value is not None}

    def read_whole(self, answer: Json) -> None:
        self.finished = answer.get("stop_reason") in _FINISHED
        self._spend(answer)
        self._blocks = dict(enumerate(objects_in(answer, "content")))

    def take(self) -> list[RoundPart]:
        for (index, field), pieces in self._pieces.items():
            text = "".join(pieces)
            block = self._blocks[index]
            if field == "input":
                block["input"] = (read_object(text) or {"query": query_of(text)}) if text else block.get("input", {})
            else:
                block[field] = str(block.get(field) or "") + text
        parts = [RoundPart(index, _kind(block), block) for index, block in sorted(self._blocks.items())]
        self._blocks, self._pieces = {}, {}
        return parts


class AnthropicTurn(Turn[AnthropicReader]):
    mark = b"content_block_start"
    begins = Hold.BRIEFLY

    def _new_reader(self) -> AnthropicReader:
        return AnthropicReader()

    def _begin(self) -> None:
        super()._begin()
        self._usage: Json = {}
        self._places: dict[int, int] = {}
        """Index that the agent sees for each block of this round."""
        self._next = len(self._before)

    def _judge(self, data: Json) -> Hold | None:
        if data.get("type") != "content_block_start":
            return None
        kind = _kind(object_in(data, "content_block"))
        return {"thought": Hold.BRIEFLY, "said": Hold.NOT}.get(kind, Hold.FOR_GOOD)

    def _adopt(self, shown: list[RoundPart]) -> None:
        super()._adopt(shown)
        if not self._later:
            self._places = {part.index: part.index for part in shown}
            self._next = len(shown)

    def _seen(self, shown: list[RoundPart]) -> list[RoundPart]:
        return [part for part in shown if not self._is_hidden(part.value)]

    def _is_hidden(self, block: Json) -> bool:
        return _kind(block) == "thought" and any(_kind(earlier) == "thought" for earlier in self._before)

    def _rewrite(self, data: Json) -> bool:
        kind = data.get("type")
        if kind == "message_start":
            self._usage = object_in(object_in(data, "message"), "usage")
            return self._id is None
        if kind == "message_delta":
            self._finish(object_in(data, "delta"))
            usage = {key: value for key, value in object_in(data, "usage").items() if value is not None}
            data["usage"] = add_usage(self._spent, self._usage | usage)
        if not isinstance(index := data.get("index"), int):
            return True
        if kind == "content_block_start":
            if index in self._left_out or self._is_hidden(object_in(data, "content_block")):
                return False
            self._places[index] = self._next
            self._next += 1
        if index not in self._places:
            return False
        data["index"] = self._places[index]
        return True

    def _merge(self, answer: Json) -> None:
        if isinstance(answer.get("content"), list):
            blocks = [block for place, block in enumerate(objects_in(answer, "content")) if place not in self._left_out]
            answer["content"] = [*self._before, *(block for block in blocks if not self._is_hidden(block))]
        self._finish(answer)
        answer["usage"] = add_usage(self._spent, object_in(answer, "usage"))

    def _finish(self, holder: Json) -> None:
        if not self._calls_left and holder.get("stop_reason") == "tool_use":
            holder["stop_reason"] = "end_turn"

    def _query(self, recall: RoundPart) -> str:
        return query_of(recall.value.get("input"))

    def _messages(self, parts: list[RoundPart], results: Sequence[str]) -> list[Message]:
        blocks = [_sendable(part.value) for part in parts if not _is_blank(part.value)]
        answers: list[Json] = [
            {"type": "tool_result", "tool_use_id": recall.value.get("id"), "content": text}
            for recall, text in zip([part for part in parts if part.kind == "recall"], results, strict=True)
        ]
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": answers}]

    def fail(self, body: bytes) -> bytes:
        refusal = read_object(body)
        if refusal is None or refusal.get("type") != "error":
            error = {"type": "api_error", "message": "the provider broke off its answer"}
            refusal = {"type": "error", "error": error}
        return event_of(refusal, named=True)

    def keep_alive(self) -> bytes:
        return event_of({"type": "ping"}, named=True)


def _kind(block: Json) -> Kind:
    kind = str(block.get("type"))
    if kind in THINKING:
        return "thought"
    if kind != "tool_use":
        return "said"
    return "recall" if block.get("name") == TOOL else "call"


def _is_blank(block: Json) -> bool:
    """True for empty text blocks: the API writes them but does not accept them back."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _sendable(block: Json) -> Json:
    return {key: value for key, value in block.items() if not (key == "citations" and value is None)}
