"""Google's ADK: `App(name=…, root_agent=agent, plugins=[FocusPlugin(focus)])`.

ADK makes the contents of a request afresh from the session's events, so a plugin may replace them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..types import Message
from .parts import FORMAT, Piece, is_whole, kept
from .plug import Plug, Source, fail_open, needs

with needs("google-adk"):
    from google.adk.models.llm_request import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Content, FunctionCall, FunctionResponse, Part


class FocusPlugin(BasePlugin):
    """Every model of the app is sent the view; the session keeps all events.

    Its `before_model_callback` can also be given to a single agent.
    """

    def __init__(self, focus: Source) -> None:
        super().__init__("focusctx")
        self._plug = Plug(focus)

    async def before_model_callback(
        self,
        *,
        callback_context: Any,  # noqa: ARG002  the framework's signature
        llm_request: LlmRequest,
    ) -> None:
        if llm_request.previous_interaction_id:
            return  # the server holds the history
        with fail_open():
            contents = llm_request.contents
            pieces = list(_pieces(contents))
            view = await self._plug.aview([piece.chat for piece in pieces], FORMAT, model=llm_request.model)
            llm_request.contents = [_sent(contents, place, parts) for place, parts in kept(pieces, view).items()]


def _pieces(contents: Sequence[Content]) -> Iterator[Piece]:
    """A model's content is one piece; of the others, every function's response is one, and all the rest."""
    calls = _Calls()
    for place, content in enumerate(contents):
        parts = list(enumerate(content.parts or ()))
        if content.role == "model":
            yield Piece(place, tuple(range(len(parts))), _turn([part for _, part in parts], calls))
            continue
        for number, part in parts:
            if part.function_response:
                yield Piece(place, (number,), _result(part.function_response, calls))
        if said := [(number, part) for number, part in parts if not part.function_response]:
            words = {"role": "user", "content": [_block(part) for _, part in said]}
            yield Piece(place, tuple(number for number, _ in said), words)


def _sent(contents: Sequence[Content], place: int | None, parts: dict[int, str | None]) -> Content:
    if place is None:
        return Content(role="user", parts=[Part(text=parts[0])])
    own = contents[place].parts or []
    if is_whole(parts, len(own)):
        return contents[place]
    return contents[place].model_copy(update={"parts": [_changed(own[number], text) for number, text in parts.items()]})


def _changed(part: Part, text: str | None) -> Part:
    if text is None:
        return part
    if part.function_response is None:
        return part.model_copy(update={"text": text})
    response = part.function_response.model_copy(update={"response": {"result": text}, "parts": None})
    return part.model_copy(update={"function_response": response})


class _Calls:
    """The ids of calls. Gemini is sent none: there, calls are answered by name, in the order they were made."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str | None, str]] = []

    def made(self, call: FunctionCall) -> str:
        self._made += 1
        self._open.append((call.name, call.id or f"call_{self._made}"))
        return self._open[-1][1]

    def answered(self, response: FunctionResponse) -> str:
        for call in self._open:
            name, known = call
            if response.id == known or (response.id is None and response.name == name):
                self._open.remove(call)
                return known
        return response.id or ""


def _turn(parts: Sequence[Part], calls: _Calls) -> Message:
    chat: dict[str, Any] = {"role": "assistant"}
    chat["content"] = [_block(part) for part in parts if not part.function_call and not part.thought]
    if hidden := "\n".join(part.text for part in parts if part.thought and part.text):
        chat["reasoning_content"] = hidden
    if made := [part.function_call for part in parts if part.function_call]:
        chat["tool_calls"] = [
            {
                "id": calls.made(call),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, default=str)},
            }
            for call in made
        ]
    return chat


def _result(response: FunctionResponse, calls: _Calls) -> Message:
    said = response.response or {}
    said = said.get("result", said)  # a function that returns no object is answered so
    content = said if isinstance(said, str) else json.dumps(said, default=str)
    return {"role": "tool", "tool_call_id": calls.answered(response), "content": content}


def _block(part: Part) -> dict[str, Any]:
    if part.text is not None:
        return {"type": "text", "text": part.text}
    whole = part.model_dump_json(exclude_none=True)
    return {"type": "file", "file": whole} if part.inline_data or part.file_data else {"type": "text", "text": whole}
