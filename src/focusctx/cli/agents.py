"""A table of agents, to point each to the proxy: its usual providers, and the variables or arguments that it reads.

The names were looked up in these releases: Claude Code 2.1, Codex 0.166, Gemini CLI 0.61, Qwen Code 0.24, OpenCode
1.18, aider 0.86 and mini-swe-agent 2.4 (both over LiteLLM).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from .command import Problem

if TYPE_CHECKING:
    from ..proxy.upstream import Upstream

_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
_GEMINI = ("GOOGLE_GEMINI_BASE_URL",)
_KINDS = {
    **dict.fromkeys(_OPENAI, "openai"),
    **dict.fromkeys(_ANTHROPIC, "anthropic"),
    **dict.fromkeys(_GEMINI, "gemini"),
}
_OPENCODE = {"openai": ("openai", ""), "anthropic": ("anthropic", "/v1"), "google": ("gemini", "/v1beta")}
"""OpenCode's providers: the kind of API, and how its base URLs end."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

Bases = Mapping[str, str]
"""The proxy's base URL for each kind of API: `openai`, `anthropic` and `gemini`, as far as an upstream answers it."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A program whose base URL can be set from outside."""

    upstreams: tuple[str, ...]
    """Providers that it usually talks to."""
    variables: tuple[str, ...] = ()
    """Environment variables in which it reads a base URL."""
    arguments: Callable[[Bases], list[str]] = lambda bases: []  # noqa: ARG005
    """Arguments to add before its own."""
    more: Callable[[Bases, Mapping[str, str]], dict[str, str]] = lambda bases, environment: {}  # noqa: ARG005
    """Further variables, made from the base URLs and the environment."""
    refuse_websockets: bool = False
    """True if it sends whole histories only where a WebSocket is refused."""
    advice: str = "Does the agent's own configuration set a base URL?"
    """Advice for a user whose agent sent no request through the proxy."""


def _codex_arguments(bases: Bases) -> list[str]:
    return ["-c", f"openai_base_url={json.dumps(bases['openai'])}"] if "openai" in bases else []


def _opencode_variables(bases: Bases, environment: Mapping[str, str]) -> dict[str, str]:
    """Set the base URLs of OpenCode's providers, and keep what its configuration variable says already."""
    name = "OPENCODE_CONFIG_CONTENT"
    try:
        config: Any = json.loads(environment.get(name) or "{}")
        providers = config.setdefault("provider", {})
        for provider, (kind, end) in _OPENCODE.items():
            if kind in bases:
                providers.setdefault(provider, {}).setdefault("options", {})["baseURL"] = bases[kind] + end
    except (ValueError, AttributeError, TypeError) as error:
        raise Problem(f"{name} is not a JSON object that OpenCode would read: correct or unset it") from error
    return {name: json.dumps(config)}


def _gemini_variables(_bases: Bases, environment: Mapping[str, str]) -> dict[str, str]:
    """Choose the key as the way to log in, unless another way was chosen.

    Gemini CLI does the same, but not if a base URL is set: it then expects a gateway, and refuses to start without a
    terminal. It reads these defaults only if file and folders belong to root, as in most containers.
    """
    name = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
    if not environment.get("GEMINI_API_KEY") or environment.get(name):
        return {}
    return {name: str(Path(__file__).with_name("gemini_defaults.json"))}


_GEMINI_ADVICE = (
    'With a base URL, Gemini CLI uses a key only if that is its chosen login: put {"security": {"auth": '
    '{"selectedType": "gemini-api-key"}}} into ~/.gemini/settings.json'
)
_EVERY = ("openai", "anthropic", "gemini")
_AGENTS = {
    "claude": Agent(("anthropic",), _ANTHROPIC[:1]),
    "codex": Agent(("openai",), arguments=_codex_arguments, refuse_websockets=True),
    "gemini": Agent(("gemini",), _GEMINI, more=_gemini_variables, advice=_GEMINI_ADVICE),
    "qwen": Agent(("openai",), _OPENAI[:1]),
    "opencode": Agent(_EVERY, more=_opencode_variables),
    "aider": Agent(("openai", "anthropic"), _OPENAI + _ANTHROPIC),
    "mini": Agent(("openai", "anthropic"), _OPENAI + _ANTHROPIC),
}
_ANY = Agent(_EVERY, _OPENAI + _ANTHROPIC + _GEMINI)
KNOWN = tuple(_AGENTS)


def agent_for(program: str) -> Agent:
    """Return what is known of a program by its name; an unknown one gets all variables."""
    return _AGENTS.get(PurePath(program).name.removesuffix(".exe").removesuffix(".cmd"), _ANY)


def usual_upstreams(agent: Agent, environment: Mapping[str, str]) -> list[str]:
    """Name the upstreams of an agent: a base URL that is set already stays in use, behind the proxy."""
    found = []
    for kind in agent.upstreams:
        url = _first(environment, [name for name in _KINDS if _KINDS[name] == kind])
        found.append(f"{kind}={url}" if url else kind)
    return found


def environment_for(agent: Agent, bases: Bases, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment: this one, with the base URLs that it reads set to the proxy's."""
    urls = {name: bases[_KINDS[name]] for name in agent.variables if _KINDS[name] in bases}
    return {**environment, **urls, **agent.more(bases, environment), **_not_through_a_proxy(environment)}


def bases_of(address: str, upstreams: Sequence[Upstream]) -> Bases:
    """Return the base URLs at which the proxy answers for its upstreams."""
    from ..proxy.upstream import base_urls

    urls = base_urls(upstreams)
    found = {
        kind: address + urls[name]
        for kind, name in (("openai", _OPENAI[0]), ("anthropic", _ANTHROPIC[0]))
        if name in urls
    }
    gemini = next((upstream.name for upstream in upstreams if upstream.name == "gemini"), None)
    return {**found, "gemini": f"{address}/{gemini}"} if gemini else found


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _not_through_a_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Keep requests to this machine away from a proxy that the environment names."""
    if not any(environment.get(name) or environment.get(name.lower()) for name in _PROXIES):
        return {}
    known = _first(environment, ("NO_PROXY", "no_proxy"))
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(filter(None, [known, "127.0.0.1", "localhost"])))
