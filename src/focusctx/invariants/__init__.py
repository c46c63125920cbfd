"""Rules that providers enforce on message lists, one per file, and the list of all."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Message
from .ai_sdk_pairs import ai_sdk_calls_and_results_pair
from .ai_sdk_provider_work import ai_sdk_provider_work_has_its_beginning
from .anthropic_cache_marks import anthropic_cache_marks_are_few_and_ordered
from .anthropic_pairs import anthropic_calls_and_results_pair
from .anthropic_server_tools import anthropic_server_uses_and_results_pair
from .anthropic_system_places import anthropic_system_messages_stand_between_turns
from .chat_pairs import chat_calls_and_results_pair
from .gemini_pairs import gemini_calls_and_responses_pair
from .ollama_results import ollama_results_have_calls
from .responses_pairs import responses_calls_and_outputs_pair
from .responses_reasoning import responses_reasoning_is_followed
from .responses_references import responses_references_have_their_step
from .rule import Rule, Violation

RULES: dict[str, tuple[Rule, ...]] = {
    "chat_completions": (chat_calls_and_results_pair,),
    "responses": (
        responses_calls_and_outputs_pair,
        responses_reasoning_is_followed,
        responses_references_have_their_step,
    ),
    "anthropic": (
        anthropic_calls_and_results_pair,
        anthropic_server_uses_and_results_pair,
        anthropic_cache_marks_are_few_and_ordered,
        anthropic_system_messages_stand_between_turns,
    ),
    "ai_sdk": (ai_sdk_calls_and_results_pair, ai_sdk_provider_work_has_its_beginning),
    "gemini": (gemini_calls_and_responses_pair,),
    "ollama": (ollama_results_have_calls,),
    "spans": (),
}


def violations(messages: Sequence[Message], format: str) -> list[Violation]:
    """Return every place where the list breaks a rule of its format, in order."""
    return sorted(violation for rule in RULES[format] for violation in rule(messages))


__all__ = ["RULES", "Rule", "Violation", "violations"]
