"""The message in which LlamaIndex's agents ask for structured output: the whole conversation as one user message.

An agent with `output_cls` writes its history into text blocks: a tag for each message, around its texts. Read as
messages again, steps can be left out of it like out of any other history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.llms import ChatMessage, TextBlock

from .parts import Piece

_BEGIN, _END = "<current_conversation>\n", "</current_conversation>\n\n"
_OPENING = re.compile(r"\t<(\w+)>\n")
_TEXT = re.compile(r"\t\t<message>(.*)</message>\n", re.DOTALL)


def is_transcript(message: ChatMessage) -> bool:
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    return len(texts) == len(message.blocks) > 3 and texts[0] == _BEGIN and texts[-2] == _END


def turns(message: ChatMessage, place: int) -> list[Piece]:
    """A piece for each message in the transcript, with the blocks it is written in."""
    pieces: list[Piece] = []
    calls: list[dict[str, Any]] | None = None
    for role, numbers, text in _written(message):
        chat: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            calls = chat["tool_calls"] = []
        elif role == "tool" and calls is not None:  # the calls themselves are not in the transcript
            chat["tool_call_id"] = f"call_{numbers[0]}"
            calls.append({"id": chat["tool_call_id"], "type": "function", "function": _UNTOLD})
        else:
            calls = None
            chat["role"] = "assistant" if role == "tool" else role
        pieces.append(Piece(place, numbers, chat))
    for piece in pieces:
        if piece.chat.get("tool_calls") == []:
            del piece.chat["tool_calls"]  # type: ignore[attr-defined]
    return pieces


_UNTOLD = {"name": "lookup", "arguments": ""}
"""The name of every call, since the transcript holds none. It must be one that only reads: if each step counted as a
change, none of them could go, and the request would stay over the budget."""


def shortened(message: ChatMessage, kept: Sequence[int | str]) -> ChatMessage:
    """Return the transcript with these of its blocks, and with texts in the place of others."""
    blocks = [message.blocks[one] if isinstance(one, int) else TextBlock(text=one) for one in kept]
    return message.model_copy(update={"blocks": [message.blocks[0], *blocks, *message.blocks[-2:]]})


def line(text: str) -> str:
    """Return the text of a block between two messages of a transcript."""
    return f"\t{text}\n"


def text_line(text: str) -> str:
    """Return the text of a block that stands for the words of a message of a transcript."""
    return f"\t\t<message>{text}</message>\n"


def _written(message: ChatMessage) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """For each message in the transcript: its role, the places of its blocks, and its text."""
    role, first, texts = "", 0, list[str]()
    for number, block in enumerate(message.blocks[1:-2], 1):
        if opening := _OPENING.fullmatch(block.text):
            role, first, texts = opening[1], number, []
        elif block.text == f"\t</{role}>\n":
            yield role, tuple(range(first, number + 1)), "\n".join(texts)
        elif text := _TEXT.fullmatch(block.text):
            texts.append(text[1])
