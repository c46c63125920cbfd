"""Google's ADK: `App(name=…, root_agent=agent, plugins=[FocusPlugin(focus)])`.

ADK makes the contents of each request anew from the session's events, so a plugin may replace them. After
`transfer_to_agent` it shows the other agents' turns and results as user contents, written as text: "retold" below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..types import Message
from .plug import CHAT, Caller, ChatPiece, Source, TenantOf, as_written, fail_open, is_whole, kept, needs, plugged

with needs("google-adk"):
    from google.adk.models.llm_request import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Content, FunctionCall, FunctionResponse, Part

_CALLED = re.compile(r"\[[^\]]+\] called tool `(.*?)` with parameters:")
_RETURNED = re.compile(r"\[[^\]]+\] `(.*?)` tool returned result:")
_SAID = re.compile(r"\[[^\]]+\] (said|thought):")
"""The texts with which ADK tells an agent what another agent did."""


class FocusPlugin(BasePlugin):
    """Sends the view to every model of the app; the session keeps all events.

    Its `before_model_callback` can also be given to a single agent.
    """

    def __init__(self, focus: Source, *, tenant: TenantOf | None = None) -> None:
        super().__init__("focusctx")
        self.focusctx = plugged(focus, tenant)

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        if llm_request.previous_interaction_id:
            return  # the server holds the history
        with fail_open():
            session = callback_context.session
            contents = llm_request.contents
            retold = _retold(contents, session.events)
            pieces = list(_pieces(contents, retold))
            # Each agent of a session is sent contents of its own.
            names = (session.app_name, session.user_id, session.id, callback_context.agent_name)
            caller = Caller(id="/".join(names), model=llm_request.model, framework="google_adk")
            view = await self.focusctx.aview(as_written([piece.chat for piece in pieces]), CHAT, caller)
            shown = kept(pieces, view).items()
            llm_request.contents = [_sent(contents, place, parts, retold) for place, parts in shown]


def _retold(contents: Sequence[Content], events: Sequence[Any]) -> set[int]:
    """Return the places of contents in which ADK tells an agent, as the user, what another agent did.

    They are steps, and not the user's words, unless the session's events say that a user wrote just that.
    """
    found = {place for place, content in enumerate(contents) if content.role == "user" and _is_retold(content)}
    own = [event.content for event in events if event.author == "user"] if found else []
    return {place for place in found if contents[place] not in own}


def _pieces(contents: Sequence[Content], retold: Collection[int]) -> Iterator[ChatPiece]:
    """Yield one piece for a model's content; for others one for each function response, and one for the rest."""
    calls = _Calls()
    for place, content in enumerate(contents):
        parts = list(enumerate(content.parts or ()))
        if content.role == "model":
            yield ChatPiece(place, tuple(range(len(parts))), _turn([part for _, part in parts], calls))
            continue
        if place in retold:
            yield from _retold_pieces(place, content, calls)
            continue
        for number, part in parts:
            if part.function_response:
                yield ChatPiece(place, (number,), _result(part.function_response, calls))
        if said := [(number, part) for number, part in parts if not part.function_response]:
            words = {"role": "user", "content": [_block(part) for _, part in said]}
            yield ChatPiece(place, tuple(number for number, _ in said), words)


def _sent(
    contents: Sequence[Content], place: int | None, parts: dict[int, str | None], retold: Collection[int]
) -> Content:
    if place is None:
        return Content(role="user", parts=[Part(text=parts[0])])
    own = contents[place].parts or []
    if is_whole(parts, len(own)):
        return contents[place]
    texts = {**parts, 0: None} if place in retold and 0 in parts else parts  # the first part says whose step it is
    return contents[place].model_copy(update={"parts": [_changed(own[number], text) for number, text in texts.items()]})


def _changed(part: Part, text: str | None) -> Part:
    if text is None:
        return part
    if part.function_response is None:
        return part.model_copy(update={"text": text})
    response = part.function_response.model_copy(update={"response": {"result": text}, "parts": None})
    return part.model_copy(update={"function_response": response})


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
    said = said.get("result", said)  # so ADK wraps the answer of a function that returns no object
    content = said if isinstance(said, str) else json.dumps(said, default=str)
    return {"role": "tool", "tool_call_id": calls.answered(response), "content": content}


def _block(part: Part) -> dict[str, Any]:
    if part.text is not None:
        return {"type": "text", "text": part.text}
    whole = part.model_dump_json(exclude_none=True)
    return {"type": "file", "file": whole} if part.inline_data or part.file_data else {"type": "text", "text": whole}


class _Calls:
    """Matches results to calls. Requests to Gemini have no ids: its calls are answered by name, in order."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str | None, str]] = []

    def made(self, call: FunctionCall) -> str:
        self._made += 1
        self._open.append((call.name, call.id or f"call_{self._made}"))
        return self._open[-1][1]

    def answered(self, response: FunctionResponse) -> str:
        """Return the id of the call that is answered; empty if there is none."""
        for call in self._open:
            name, known = call
            if response.id == known or (response.id is None and response.name == name):
                self._open.remove(call)
                return known
        return response.id or ""


def _is_retold(content: Content) -> bool:
    first, *rest = content.parts or [Part()]
    texts = [part.text for part in rest if part.text is not None]
    retold = all(_SAID.match(text) or _CALLED.match(text) or _RETURNED.match(text) for text in texts)
    return (first.text or "").startswith("For context:") and bool(texts) and retold


def _retold_pieces(place: int, content: Content, calls: _Calls) -> Iterator[ChatPiece]:
    """Yield a piece for each result in a retold content, or one for its turn; the introducing part goes with it."""
    texts = [part.text or "" for part in content.parts or ()]
    results = [(number, found[1]) for number, text in enumerate(texts) if (found := _RETURNED.match(text))]
    answered = [calls.answered(FunctionResponse(name=name)) for _, name in results]
    if results and all(answered):
        ends = [*(number for number, _ in results[1:]), len(texts)]
        begin = 0
        for call, end in zip(answered, ends, strict=True):
            said = "\n".join(texts[begin:end])
            yield ChatPiece(place, tuple(range(begin, end)), {"role": "tool", "tool_call_id": call, "content": said})
            begin = end
        return
    turn: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts)}
    if names := [found[1] for text in texts if (found := _CALLED.match(text))]:
        turn["tool_calls"] = [_retold_call(name, calls) for name in names]
    yield ChatPiece(place, tuple(range(len(texts))), turn)


def _retold_call(name: str, calls: _Calls) -> dict[str, Any]:
    made = calls.made(FunctionCall(name=name))
    return {"id": made, "type": "function", "function": {"name": name, "arguments": ""}}
