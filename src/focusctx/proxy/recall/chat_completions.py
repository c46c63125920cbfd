"""Chat Completions: one message per turn, so the texts of all rounds are joined into one.

Answers with several choices are left alone: there is no single history to ask again with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...session.recall import TOOL, query_of
from ...types import Message
from .sse import Json, event_of, object_in, objects_in, read_object
from .turn import Hold, Kind, RoundPart, Turn, add_usage

_SAID = ("content", "refusal")
_CUT_OFF = (None, "length", "content_filter", "error")
_BETWEEN_ROUNDS = "\n\n"


class ChatReader:
    def __init__(self) -> None:
        self.id: str | None = None
        self.created: Any = None
        self.usage: Json = {}
        self._finish: str | None = None
        self._texts: dict[str, list[Any]] = {}
        self._calls: list[tuple[object, Json]] = []
        self._several = False

    @property
    def finished(self) -> bool:
        return self._finish not in _CUT_OFF

    def read(self, data: Json) -> None:
        if isinstance(identity := data.get("id"), str) and self.id is None:
            self.id, self.created = identity, data.get("created")
        if isinstance(usage := data.get("usage"), dict):
            self.usage = usage
        for choice in objects_in(data, "choices"):
            self._several = self._several or choice.get("index") not in (0, None)
            self._finish = choice.get("finish_reason") or self._finish
            self._say(object_in(choice, "delta"))

    def read_whole(self, answer: Json) -> None:
        for choice in objects_in(answer, "choices"):
            message = object_in(choice, "message")
            calls = [{"index": place, **call} for place, call in enumerate(objects_in(message, "tool_calls"))]
            self.read({**answer, "choices": [{**choice, "delta": {**message, "tool_calls": calls}}]})

    def _say(self, delta: Json) -> None:
        for key, value in delta.items():
            if value and (key in _SAID or _is_thought(key)) and isinstance(value, str | list):
                self._texts.setdefault(key, []).append(value)
        for call in objects_in(delta, "tool_calls"):
            self._call(call)

    def _call(self, delta: Json) -> None:
        """Add a piece of a call, found by its index. Some gateways send whole calls, all with the same index."""
        function = object_in(delta, "function")
        identity, index = delta.get("id"), delta.get("index", len(self._calls) if delta.get("id") else None)
        known = self._calls[-1] if self._calls and index is None else None
        known = known or next((call for call in self._calls if call[0] == index), None)
        if known is None or (identity and known[1].get("id") not in (identity, None, "")):
            fields = {key: value for key, value in delta.items() if key not in ("index", "function")}
            self._calls.append((index, {"type": "function", **fields, "function": dict(function)}))
            return
        begun = known[1]["function"]
        begun["name"] = begun.get("name") or function.get("name")
        if isinstance(piece := function.get("arguments"), str):
            begun["arguments"] = str(begun.get("arguments") or "") + piece

    def take(self) -> list[RoundPart]:
        if self._several:
            return []
        texts = {key: _joined(values) for key, values in self._texts.items()}
        thoughts = {key: value for key, value in texts.items() if _is_thought(key)}
        said = {key: value for key, value in texts.items() if key not in thoughts}
        parts = [RoundPart(-2, "thought", thoughts)] if thoughts else []
        parts += [RoundPart(-1, "said", said)] if said else []
        for place, (index, call) in enumerate(self._calls):
            kind: Kind = "recall" if call["function"].get("name") == TOOL else "call"
            parts.append(RoundPart(index if isinstance(index, int) else place, kind, call))
        self._texts, self._calls = {}, []
        return parts


class ChatCompletionsTurn(Turn[ChatReader]):
    mark = b'"tool_calls"'
    begins = Hold.NOT

    def __init__(self) -> None:
        super().__init__()
        self._created: Any = None
        self._to_part: set[str] = set()
        """Fields with text of earlier rounds, from which the next piece must be separated."""

    def _new_reader(self) -> ChatReader:
        return ChatReader()

    def _judge(self, data: Json) -> Hold | None:
        deltas = [object_in(choice, "delta") for choice in objects_in(data, "choices")]
        return Hold.FOR_GOOD if any(objects_in(delta, "tool_calls") for delta in deltas) else None

    def _adopt(self, shown: list[RoundPart]) -> None:
        if self._id is None:
            self._created = self._reader.created
        super()._adopt(shown)

    def answer(self, results: Sequence[str]) -> list[Message]:
        extra = super().answer(results)
        self._to_part = {key for said in self._before for key, text in said.items() if isinstance(text, str)}
        return extra

    def _rewrite(self, data: Json) -> bool:
        if isinstance(usage := data.get("usage"), dict):
            data["usage"] = add_usage(self._spent, usage)
        if self._id is not None and "id" in data:
            data |= {"id": self._id, "created": self._created}
        for choice in objects_in(data, "choices"):
            delta = object_in(choice, "delta")
            had_calls = bool(objects_in(delta, "tool_calls"))
            if self._id is not None:
                delta.pop("role", None)
                self._go_on(delta)
            self._leave_out(delta, choice)
            if had_calls and not delta and not choice.get("finish_reason"):
                return False
        return True

    def _merge(self, answer: Json) -> None:
        if isinstance(usage := answer.get("usage"), dict):
            answer["usage"] = add_usage(self._spent, usage)
        for choice in objects_in(answer, "choices"):
            if not isinstance(message := choice.get("message"), dict):
                continue
            for key, text in [item for said in reversed(self._before) for item in said.items()]:
                rest = message.get(key)
                if not rest:
                    message[key] = text
                elif isinstance(rest, str) and isinstance(text, str):
                    message[key] = text + _BETWEEN_ROUNDS + rest
            self._leave_out(message, choice)

    def _go_on(self, delta: Json) -> None:
        for key in [key for key in self._to_part if isinstance(delta.get(key), str) and delta[key]]:
            delta[key] = _BETWEEN_ROUNDS + delta[key]
            self._to_part.discard(key)
        if any("reasoning_details" in said for said in self._before):
            delta.pop("reasoning_details", None)  # signed, like Anthropic's: those of two rounds cannot be joined

    def _leave_out(self, delta: Json, choice: Json) -> None:
        if not self._left_out:
            return
        calls = objects_in(delta, "tool_calls")
        kept = []
        for place, call in enumerate(calls):
            index = call.get("index", place)
            if isinstance(index, int) and index not in self._left_out:
                before = sum(0 <= gone < index for gone in self._left_out)
                kept.append({**call, "index": index - before} if "index" in call else call)
        if kept:
            delta["tool_calls"] = kept
        elif calls:
            del delta["tool_calls"]
        if not self._calls_left and choice.get("finish_reason") == "tool_calls":
            choice["finish_reason"] = "stop"

    def _query(self, recall: RoundPart) -> str:
        return query_of(recall.value["function"].get("arguments"))

    def _messages(self, parts: list[RoundPart], results: Sequence[str]) -> list[Message]:
        turn: Json = {"role": "assistant", "content": None}
        calls: list[Json] = []
        for part in parts:
            if part.kind == "recall":
                calls.append(self._sendable(part, len(calls)))
            else:
                turn |= {key: _joined([turn[key], text]) if turn.get(key) else text for key, text in part.value.items()}
        turn["tool_calls"] = calls
        answers = zip(calls, results, strict=True)
        return [turn, *({"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in answers)]

    def _sendable(self, recall: RoundPart, place: int) -> Json:
        """Return a call that the provider accepts back: with an id, and with arguments that are JSON."""
        call = recall.value
        arguments = call["function"].get("arguments")
        if not isinstance(arguments, str) or read_object(arguments) is None:
            arguments = json.dumps({"query": self._query(recall)})
        function = {**call["function"], "arguments": arguments}
        return {**call, "id": call.get("id") or f"{TOOL}_{len(self._extra)}_{place}", "function": function}

    def fail(self, body: bytes) -> bytes:
        refusal = read_object(body)
        if refusal is None or not refusal.get("error"):
            refusal = {"error": {"message": "the provider broke off its answer", "type": "server_error", "code": None}}
        return event_of(refusal, named=False)


def _is_thought(key: str) -> bool:
    """True for fields that gateways add to a message for the model's reasoning, and expect back."""
    return key.startswith(("reasoning", "thinking"))


def _joined(values: list[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        return "".join(values)
    return [element for value in values if isinstance(value, list) for element in value]
