"""Responses: the output items of all rounds, and their events, numbered consecutively.

A reasoning item is held until the item it led to is known: the API accepts neither without the other. The stream's
beginning is held until the first item is shown: if nothing of a round is shown, the next one can keep its own id.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...session.recall import TOOL, query_of
from ...types import Message
from .sse import Json, event_of, object_in, objects_in, read_object
from .turn import Hold, Kind, RoundPart, Turn, add_usage

_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")


class ResponsesReader:
    def __init__(self) -> None:
        self.id: str | None = None
        self.begun: Json = {}
        self.usage: Json = {}
        self.finished = False
        self.sequence = -1
        self._items: dict[int, Json] = {}

    def read(self, data: Json) -> None:
        if isinstance(number := data.get("sequence_number"), int):
            self.sequence = number
        kind, response = data.get("type"), object_in(data, "response")
        if kind == "response.created":
            self.id, self.begun = str(response.get("id")), response
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(index := data.get("output_index"), int) and (item := object_in(data, "item")):
                self._items[index] = item
        elif response and kind not in _BEGINNINGS:
            self.finished = kind == "response.completed"
            self.usage = object_in(response, "usage")

    def read_whole(self, answer: Json) -> None:
        self.finished = answer.get("status") == "completed"
        self.usage = object_in(answer, "usage")
        self._items = dict(enumerate(objects_in(answer, "output")))

    def take(self) -> list[RoundPart]:
        parts = [RoundPart(index, _kind(item), item) for index, item in sorted(self._items.items())]
        self._items = {}
        return parts


class ResponsesTurn(Turn[ResponsesReader]):
    mark = b"response.output_item.added"
    begins = Hold.BRIEFLY
    bound = True

    def __init__(self) -> None:
        self._begun: Json = {}
        self._last_sequence = -1
        """Sequence number of the last event that the agent was shown, as far as it is known."""
        super().__init__()

    def _new_reader(self) -> ResponsesReader:
        return ResponsesReader()

    def _begin(self) -> None:
        super()._begin()
        self._places: dict[int, int] = {}
        """Index that the agent sees for each item of this round."""
        self._next = len(self._before)
        self._ahead = self._last_sequence + 1
        """Difference between the sequence numbers that the agent sees and this round's own."""

    def _judge(self, data: Json) -> Hold | None:
        item = object_in(data, "item")
        if data.get("type") != "response.output_item.added" or not item:
            return None
        return {"thought": Hold.BRIEFLY, "said": Hold.NOT}.get(_kind(item), Hold.FOR_GOOD)

    def _adopt(self, shown: list[RoundPart]) -> None:
        super()._adopt(shown)
        self._begun = self._reader.begun or self._begun
        if not self._later:
            self._places = {part.index: part.index for part in shown}
            self._next = len(shown)
            self._last_sequence = self._reader.sequence

    def answer(self, results: Sequence[str]) -> list[Message]:
        if self._id is None:
            self._begun = self._reader.begun
        return super().answer(results)

    def _rewrite(self, data: Json) -> bool:
        index = data.get("output_index")
        if data.get("type") == "response.output_item.added" and isinstance(index, int) and index not in self._left_out:
            self._places[index] = self._next
            self._next += 1
        begins_again = data.get("type") in _BEGINNINGS and self._id is not None
        if begins_again or (isinstance(index, int) and index not in self._places):
            self._ahead -= "sequence_number" in data
            return False
        if isinstance(index, int):
            data["output_index"] = self._places[index]
        if isinstance(data.get("sequence_number"), int):
            data["sequence_number"] = self._last_sequence = data["sequence_number"] + self._ahead
        if (response := object_in(data, "response")) and data.get("type") not in _BEGINNINGS:
            self._merge(response)
            if self._id not in (None, response.get("id")):
                self.alias = (self._id, str(response.get("id")))
                response["id"] = self._id
        return True

    def _merge(self, answer: Json) -> None:
        if isinstance(answer.get("output"), list):
            items = [item for place, item in enumerate(objects_in(answer, "output")) if place not in self._left_out]
            answer["output"] = [*self._before, *items]
        if usage := object_in(answer, "usage"):
            answer["usage"] = add_usage(self._spent, usage)

    def _query(self, recall: RoundPart) -> str:
        return query_of(recall.value.get("arguments"))

    def _messages(self, parts: list[RoundPart], results: Sequence[str]) -> list[Message]:
        items: list[Message] = []
        for part in parts:
            follows = bool(items) and items[-1].get("type") == "reasoning"
            alone = part.kind == "recall" and not follows
            # With its id, the provider would demand the reasoning that went with another call.
            items.append({key: value for key, value in part.value.items() if not (alone and key == "id")})
        recalls = [part for part in parts if part.kind == "recall"]
        return items + [
            {"type": "function_call_output", "call_id": recall.value.get("call_id"), "output": text}
            for recall, text in zip(recalls, results, strict=True)
        ]

    def fail(self, body: bytes) -> bytes:
        self._read_shown()
        items = [part.value for part in self._reader.take()]
        self._adopt([])
        refusal = object_in(read_object(body) or {}, "error")
        error = {
            "code": refusal.get("code") or "server_error",
            "message": refusal.get("message") or "the provider broke off its answer",
        }
        begun = {**self._begun, "id": self._id or self._begun.get("id")}
        failed = {**begun, "status": "failed", "error": error, "output": [*self._before, *items]}
        events: list[Json] = [] if self._id else [{"type": "response.created", "response": begun}]
        events.append({"type": "response.failed", "response": failed})
        numbered = enumerate(events, self._last_sequence + 1)
        return b"".join(event_of({**event, "sequence_number": number}, named=True) for number, event in numbered)


def _kind(item: Json) -> Kind:
    kind = item.get("type")
    if kind == "reasoning":
        return "thought"
    if kind == "function_call" and item.get("name") == TOOL:
        return "recall"
    # Calls of tools that the provider runs itself contain their results and need no answer.
    return "call" if "call_id" in item or kind == "mcp_approval_request" else "said"
