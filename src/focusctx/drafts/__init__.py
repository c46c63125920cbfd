"""The draft models that sketch plans. Each is imported, with its dependencies, when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .anthropic import AnthropicDraft
    from .function import FunctionDraft
    from .llama_cpp import LlamaCppDraft
    from .offline import OfflineDraft
    from .openai_compatible import OpenAICompatibleDraft
    from .registry import draft_from
    from .scripted import ScriptedDraft
    from .transformers import TransformersDraft

__all__ = [
    "AnthropicDraft",
    "FunctionDraft",
    "LlamaCppDraft",
    "OfflineDraft",
    "OpenAICompatibleDraft",
    "ScriptedDraft",
    "TransformersDraft",
    "draft_from",
]

_HOMES = {
    "AnthropicDraft": "anthropic",
    "FunctionDraft": "function",
    "LlamaCppDraft": "llama_cpp",
    "OfflineDraft": "offline",
    "OpenAICompatibleDraft": "openai_compatible",
    "ScriptedDraft": "scripted",
    "TransformersDraft": "transformers",
    "draft_from": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
