"""Turn what a user writes, `openai:gpt-4.1`, into the agent's model. Names are those of drafts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from focusctx.drafts.anthropic import AnthropicDraft
from focusctx.drafts.openai_compatible import OpenAICompatibleDraft
from focusctx.drafts.registry import draft_from
from focusctx.errors import ConfigError

from ..agent import SEED, TEMPERATURE
from ..protocols import Model
from .anthropic import AnthropicModel
from .openai_compatible import OpenAICompatibleModel

_DRAFTS_ONLY = ("offline", "transformers", "llama-cpp")


def model_from(
    name: str, *, temperature: float = TEMPERATURE, seed: int = SEED, headers: Mapping[str, str] | None = None
) -> Model:
    """Return `openai:MODEL`, `openai:MODEL@URL`, `azure:DEPLOYMENT`, `anthropic:MODEL`, `deepseek:MODEL` and so on.

    `headers` go with every request, beside those that the server needs.
    """
    if name.partition(":")[0] in _DRAFTS_ONLY:
        raise ConfigError(f"{name!r} can be a draft but not the agent's model: name one behind an API")
    try:
        known = draft_from(name)
    except ConfigError as error:
        raise ConfigError(f"no model {name!r} for the agent: {error}") from error
    # A draft of that name already knows the server, its URL and its key.
    assert isinstance(known, OpenAICompatibleDraft | AnthropicDraft)
    endpoint = replace(known.endpoint, headers={**known.endpoint.headers, **(headers or {})})
    if isinstance(known, OpenAICompatibleDraft):
        return OpenAICompatibleModel(known.model, known.name, endpoint, temperature=temperature, seed=seed)
    return AnthropicModel(known.model, known.name, endpoint, temperature=temperature)
