"""Turn what a user writes, such as `draft="openai:gpt-5-mini"`, into a draft."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from ..errors import ConfigError
from ..prices import Price, price_of
from ..types import DraftModel, Prompt

_FORMS = """\
  offline                         data flow only, no model
  openai:MODEL                    OpenAI, or the server OPENAI_BASE_URL names
  openai:MODEL@http://HOST/v1     any OpenAI-compatible server
  azure:DEPLOYMENT                Azure OpenAI
  anthropic:MODEL                 Anthropic
  {presets}:MODEL
  transformers:PATH_OR_NAME       a model run here, in this process
  llama-cpp:FILE.gguf             a quantised model run here, beside this process
                                  these two take options, as in transformers:PATH?dtype=bfloat16&min_p=0.1
or an object with `sample`, or a function from a Prompt to a str"""


@dataclass(frozen=True, slots=True)
class _Preset:
    """An OpenAI-compatible server and the variable that holds its key."""

    base_url: str
    key: str
    needs_key: bool = True


_PRESETS = {
    "deepseek": _Preset("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "gemini": _Preset("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": _Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": _Preset("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": _Preset("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", needs_key=False),
    "openrouter": _Preset("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "vllm": _Preset("http://127.0.0.1:8000/v1", "VLLM_API_KEY", needs_key=False),
}


_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def draft_from(
    draft: str | DraftModel | Callable[[Prompt], str | Awaitable[str]], api_key: str | None = None
) -> DraftModel:
    """Return the draft that a string names, a function wrapped as a draft, or a draft unchanged.

    `api_key` is the key of a provider that the string names, in place of the provider's environment variable.
    """
    if isinstance(draft, str):
        return _named(draft, api_key)
    if api_key is not None:
        raise ConfigError("api_key is for drafts given by name, such as openai:MODEL; give this draft its key itself")
    if isinstance(draft, type):
        raise ConfigError(f"a draft is an object, not a class: write {draft.__name__}(...)")
    if hasattr(draft, "sample"):
        return cast("DraftModel", draft)
    if callable(draft):
        from .function import FunctionDraft

        return FunctionDraft(draft)
    raise ConfigError(f"{draft!r} cannot be used as a draft. Known forms:\n{_forms()}")


def price_of_draft(draft: DraftModel) -> Price | None:
    """Return the price of a draft: zero if it runs on this machine, None if its price is not known."""
    if price := price_of(draft.name):
        return price
    endpoint = getattr(draft, "endpoint", None)
    is_here = urlsplit(endpoint.url).hostname in _THIS_MACHINE if endpoint else _is_local(draft.name)
    return Price(input=0.0, output=0.0) if is_here else None


def _is_local(name: str) -> bool:
    return name.partition(":")[0] in ("offline", "scripted", "transformers", "likelihood", "llama-cpp")


def _named(text: str, api_key: str | None) -> DraftModel:
    prefix, _, model = text.partition(":")
    if model and prefix in _PRESETS:
        return _preset(prefix, model, api_key)
    if model and prefix in _PROVIDERS:
        return _PROVIDERS[prefix](model, api_key)
    if api_key is not None and (text == "offline" or prefix in _LOCAL):
        raise ConfigError(f"the draft {text} takes no api_key: it asks no provider")
    if text == "offline":
        from .offline import OfflineDraft

        return OfflineDraft()
    if model and prefix in _LOCAL:
        return _LOCAL[prefix](model)
    raise ConfigError(f"unknown draft {text!r}. Known forms:\n{_forms()}")


def _forms() -> str:
    return _FORMS.format(presets="|".join(_PRESETS))


def _openai(text: str, api_key: str | None) -> DraftModel:
    from .openai_compatible import OpenAICompatibleDraft

    model, url = _split("openai", text)
    return OpenAICompatibleDraft(model, base_url=url, api_key=api_key)


def _anthropic(text: str, api_key: str | None) -> DraftModel:
    from .anthropic import AnthropicDraft

    model, url = _split("anthropic", text)
    return AnthropicDraft(model, base_url=url, api_key=api_key)


def _azure(deployment: str, api_key: str | None) -> DraftModel:
    from .openai_compatible import OpenAICompatibleDraft

    endpoint = _variable("AZURE_OPENAI_ENDPOINT", "azure:").rstrip("/").removesuffix("/openai/v1")
    return OpenAICompatibleDraft(
        deployment,
        base_url=f"{endpoint}/openai/v1",
        api_key="",
        headers={"api-key": _key("AZURE_OPENAI_API_KEY", "azure:", api_key)},
        name=f"azure:{deployment}",
    )


def _transformers(text: str) -> DraftModel:
    from .transformers import TransformersDraft

    path, options = _with_options(text, {"device": str, "dtype": str, "min_p": float})
    return TransformersDraft(path, **options)


def _llama_cpp(text: str) -> DraftModel:
    from .llama_cpp import LlamaCppDraft

    path, options = _with_options(text, {"context": int, "threads": int})
    return LlamaCppDraft(path, **options)


def _with_options(text: str, kinds: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Split `PATH?name=value&name=value` into the path and its options, each value converted to its type."""
    path, _, query = text.partition("?")
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in kinds:
            raise ConfigError(f"unknown option {name!r} of the draft {path}; known: {', '.join(sorted(kinds))}")
        try:
            options[name] = kinds[name](value)
        except ValueError:
            raise ConfigError(f"the option {name} of the draft {path} cannot be {value!r}") from None
    return path, options


_PROVIDERS: dict[str, Callable[[str, str | None], DraftModel]] = {
    "anthropic": _anthropic,
    "azure": _azure,
    "openai": _openai,
}
_LOCAL: dict[str, Callable[[str], DraftModel]] = {"llama-cpp": _llama_cpp, "transformers": _transformers}


def _preset(prefix: str, text: str, api_key: str | None) -> DraftModel:
    from .openai_compatible import OpenAICompatibleDraft

    preset = _PRESETS[prefix]
    model, url = _split(prefix, text)
    # An empty key, not None: OPENAI_API_KEY is for OpenAI, other providers must not see it.
    needs_key = preset.needs_key and url is None
    if needs_key or api_key is not None:
        key = _key(preset.key, f"{prefix}:", api_key)
    else:
        key = os.environ.get(preset.key, "")
    if prefix == "ollama":
        url = url or _ollama_url(os.environ.get("OLLAMA_HOST", ""))
    return OpenAICompatibleDraft(model, base_url=url or preset.base_url, api_key=key, name=f"{prefix}:{text}")


def _split(prefix: str, text: str) -> tuple[str, str | None]:
    """Split `MODEL@URL` into its two parts; an @ before a version, as in `model@v2`, belongs to the model's name."""
    match = re.fullmatch(r"(.+?)@(https?://.+)", text)
    if match:
        return match[1], match[2]
    model, _, rest = text.rpartition("@")
    if model and not _VERSION.match(rest):
        raise ConfigError(f"{rest!r} in the draft {prefix}:{text} is not a URL: write {prefix}:{model}@http://HOST/v1")
    return text, None


_VERSION = re.compile(r"v?\d|latest\b|default\b|preview\b")


def _key(name: str, form: str, given: str | None) -> str:
    """Return the key that was given, or else the one in the environment variable."""
    if given is not None:
        return given.strip()
    if not (value := os.environ.get(name, "").strip()):
        raise ConfigError(f"drafts {form}… need a key: set the environment variable {name}, or pass api_key in Python")
    return value


def _variable(name: str, form: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"set the environment variable {name}, which drafts {form}… need")
    return value


def _ollama_url(host: str) -> str | None:
    """Convert OLLAMA_HOST as Ollama writes it, mostly `host:port` without a scheme, to the URL of its API."""
    host = host.strip().rstrip("/")
    if not host:
        return None
    scheme, _, rest = host.rpartition("://")
    address, slash, path = rest.partition("/")
    # 0.0.0.0 is where the server listens, not where it can be reached.
    address = re.sub(r"^(0\.0\.0\.0)?(?=:|$)", "127.0.0.1", address)
    if not scheme and not re.search(r":\d+$", address):
        address += ":11434"
    return f"{scheme or 'http'}://{address}{slash}{path}/v1"
