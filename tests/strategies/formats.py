"""The strategy of each format, by its name."""

from hypothesis import strategies as st

from .ai_sdk import ai_sdk_histories
from .anthropic import anthropic_histories
from .chat_completions import chat_histories
from .gemini import gemini_histories
from .ollama import ollama_histories
from .parts import Json
from .react import react_histories
from .responses import responses_histories

HISTORIES: dict[str, st.SearchStrategy[list[Json]]] = {
    "chat_completions": chat_histories(),
    "responses": responses_histories(),
    "anthropic": anthropic_histories(),
    "ai_sdk": ai_sdk_histories(),
    "gemini": gemini_histories(),
    "ollama": ollama_histories(),
    "react": react_histories(),
}
COMPLETE_HISTORIES: dict[str, st.SearchStrategy[list[Json]]] = {
    "chat_completions": chat_histories(complete=True),
    "responses": responses_histories(complete=True),
    "anthropic": anthropic_histories(complete=True),
    "ai_sdk": ai_sdk_histories(complete=True),
    "gemini": gemini_histories(complete=True),
    "ollama": ollama_histories(complete=True),
}
"""Histories with calls in them, all answered, and nothing given only by reference."""


def format_of(kind: str) -> str:
    return "chat_completions" if kind == "react" else kind
