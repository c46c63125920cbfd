"""LlamaIndex: `FunctionAgent(llm=focused(llm, focus), tools=…)`, and any other agent or chat engine with that LLM.

The agents keep the steps of a run outside of their memory until it ends, so a memory would see none of them. All
steps, and all of the memory, come together where the LLM is called.

An agent with `output_cls` asks for structured output with its whole conversation as one user message, the transcript:
text blocks, with a tag for each message around its texts. It is read as messages again, so that steps can be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ..types import Message
from .plug import (
    CHAT,
    Caller,
    ChatPiece,
    Plug,
    Source,
    TenantOf,
    as_written,
    attach,
    fail_open,
    needs,
    places,
    plugged,
    subclass,
)

with needs("llama-index"):
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms import LLM, ChatMessage, TextBlock

Model = TypeVar("Model", bound=LLM)

_ELSEWHERE = {"text", "tool_call", "thinking"}
"""Blocks that a chat message has as its text, or in other fields."""
_BEGIN, _END = "<current_conversation>\n", "</current_conversation>\n\n"
_OPENING = re.compile(r"\t<(\w+)>\n")
_TEXT = re.compile(r"\t\t<message>(.*)</message>\n", re.DOTALL)
_UNNAMED_CALL = {"name": "lookup", "arguments": ""}
"""The name of every call, since the transcript holds none. It must be one that only reads: if each step counted as a
change, none of them could go, and the request would stay over the budget."""


def focused(llm: Model, focus: Source, *, tenant: TenantOf | None = None) -> Model:
    """Return a copy of the LLM whose chats carry views; it is of the same class."""
    copy: Model = llm.model_copy()
    object.__setattr__(copy, "__class__", subclass(_focused, type(llm)))
    attach(copy, plugged(focus, tenant))
    return copy


def _focused(kind: type[Any]) -> type[Any]:
    class Focused(kind):
        _focusctx: Plug = PrivateAttr()

        @property
        def focusctx(self) -> Plug:
            return self._focusctx

        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            return super().chat(self._view(messages), **kwargs)

        def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            return super().stream_chat(self._view(messages), **kwargs)

        async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            return await super().achat(await self._aview(messages), **kwargs)

        async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            return await super().astream_chat(await self._aview(messages), **kwargs)

        def _view(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
            with fail_open():
                if not isinstance(messages, _Sent):
                    history = _History(messages)
                    messages = history.sent(self._focusctx.view(history.given, CHAT, self._caller()))
            return messages

        async def _aview(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
            with fail_open():
                if not isinstance(messages, _Sent):
                    history = _History(messages)
                    messages = history.sent(await self._focusctx.aview(history.given, CHAT, self._caller()))
            return messages

        def _caller(self) -> Caller:
            return Caller(model=self.metadata.model_name, framework="llama_index")

        def __getstate__(self) -> dict[str, Any]:
            return {"llm": super().__getstate__(), "focusctx": self._focusctx}

        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state["llm"])  # drops what is private
            attach(self, state["focusctx"])

    return Focused


class _Sent(list[ChatMessage]):
    """Marks messages that are a view already: some LLMs carry out one kind of call by another."""


class _History:
    """Translates an LLM's messages to chat messages, and a view of these back."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._messages = messages
        transcript = next((place for place, message in enumerate(messages) if _is_transcript(message)), None)
        self._transcript = transcript
        pieces = [ChatPiece(place, (), _chat(message)) for place, message in enumerate(messages) if place != transcript]
        if transcript is not None:
            pieces = [*pieces[:transcript], *_turns(messages[transcript], transcript), *pieces[transcript:]]
        self._pieces = pieces
        self.given = as_written([piece.chat for piece in pieces])

    def sent(self, view: Sequence[Message]) -> _Sent:
        messages = _Sent()
        blocks: list[int | str] = []
        for chat, found in zip(view, places(self.given, view), strict=True):
            piece = None if found is None else self._pieces[found]
            if piece is not None and piece.place != self._transcript:
                messages.append(_changed(self._messages[piece.place], piece.chat, chat))
            elif self._transcript is None:
                messages.append(ChatMessage(content=chat["content"]))
            else:
                blocks += _blocks(piece, chat)
        if self._transcript is not None:
            whole = self._messages[self._transcript]
            messages.insert(self._transcript, _shortened(whole, blocks))
        return messages


def _changed(message: ChatMessage, given: Message, chat: Message) -> ChatMessage:
    return message if chat is given else message.model_copy(update={"blocks": [TextBlock(text=chat["content"])]})


def _chat(message: ChatMessage) -> Message:
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in message.blocks]
    chat: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if any(block["block_type"] not in _ELSEWHERE for block in blocks):
        chat["content"] = [{**block, "type": block["block_type"]} for block in blocks]
    more = message.additional_kwargs
    if "tool_call_id" in more:
        chat["tool_call_id"] = more["tool_call_id"]
    calls = [_call(block) for block in blocks if block["block_type"] == "tool_call"]
    if calls := calls or [_plain(call) for call in more.get("tool_calls") or ()]:
        chat["tool_calls"] = calls
    if hidden := [block.get("content", "") for block in blocks if block["block_type"] == "thinking"]:
        chat["reasoning_content"] = "\n".join(hidden)
    return chat


def _call(block: dict[str, Any]) -> dict[str, Any]:
    name, arguments = block["tool_name"], block.get("tool_kwargs", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": block.get("tool_call_id", name), "type": "function", "function": {"name": name, "arguments": text}}


def _plain(call: Any) -> dict[str, Any]:
    """Return a call that an older LLM package keeps in its provider's form."""
    return call if isinstance(call, dict) else call.model_dump(mode="json", exclude_none=True)


# ------------------------------------------------------------------------------------------------------- the transcript


def _is_transcript(message: ChatMessage) -> bool:
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    return len(texts) == len(message.blocks) > 3 and texts[0] == _BEGIN and texts[-2] == _END


def _turns(message: ChatMessage, place: int) -> list[ChatPiece]:
    """Return a piece for each message in the transcript, with the blocks it is written in."""
    pieces: list[ChatPiece] = []
    calls: list[dict[str, Any]] | None = None
    for role, numbers, text in _written(message):
        chat: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            calls = chat["tool_calls"] = []
        elif role == "tool" and calls is not None:  # the calls themselves are not in the transcript
            chat["tool_call_id"] = f"call_{numbers[0]}"
            calls.append({"id": chat["tool_call_id"], "type": "function", "function": _UNNAMED_CALL})
        else:
            calls = None
            chat["role"] = "assistant" if role == "tool" else role
        pieces.append(ChatPiece(place, numbers, chat))
    for piece in pieces:
        if piece.chat.get("tool_calls") == []:
            del piece.chat["tool_calls"]  # type: ignore[attr-defined]
    return pieces


def _shortened(message: ChatMessage, kept: Sequence[int | str]) -> ChatMessage:
    """Return the transcript with these blocks: its own, by their places, and new texts."""
    blocks = [message.blocks[one] if isinstance(one, int) else TextBlock(text=one) for one in kept]
    return message.model_copy(update={"blocks": [message.blocks[0], *blocks, *message.blocks[-2:]]})


def _line(text: str) -> str:
    """Return the text of a block between two messages of a transcript."""
    return f"\t{text}\n"


def _text_line(text: str) -> str:
    """Return the text of a block with a message's words."""
    return f"\t\t<message>{text}</message>\n"


def _written(message: ChatMessage) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield the role, the places of the blocks and the text of each message in the transcript."""
    role, first, texts = "", 0, list[str]()
    for number, block in enumerate(message.blocks[1:-2], 1):
        if opening := _OPENING.fullmatch(block.text):
            role, first, texts = opening[1], number, []
        elif block.text == f"\t</{role}>\n":
            yield role, tuple(range(first, number + 1)), "\n".join(texts)
        elif text := _TEXT.fullmatch(block.text):
            texts.append(text[1])


def _blocks(piece: ChatPiece | None, chat: Message) -> list[int | str]:
    """Return the blocks of a transcript for a message of the view; a shortened result keeps its tags."""
    if piece is None:
        return [_line(chat["content"])]
    return [*piece.parts] if chat is piece.chat else [piece.parts[0], _text_line(chat["content"]), piece.parts[-1]]
