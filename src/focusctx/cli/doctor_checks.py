"""Checks of `focusctx doctor` that ask nobody: installed packages, keys, agents."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from .. import __version__
from .agents import KNOWN

_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"),
    *("DEEPSEEK_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY"),
    *("FOCUSCTX_TOKEN", "FOCUSCTX_ADMIN_TOKEN"),
)
"""Variables that hold a key of a provider, or a token of the proxy."""
_BASE_URLS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "FOCUSCTX_PRICES")
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)[^;>]*(?:>=(?P<least>[\d.]+))?[^;]*(?:;.*extra == ['\"](?P<extra>[\w-]+)['\"])?"
)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    ok: bool | None
    """None if there is nothing to judge."""
    said: str
    hint: str = ""
    """Advice on how to put it right."""


def installed() -> Iterator[Check]:
    """Describe this installation: versions, the parts of the proxy, and which other extras are there."""
    yield Check("focusctx", True, f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    extras = _extras()
    if not extras:
        yield Check("extras", None, "unknown: focusctx is not installed as a package")
        return
    proxy = extras.pop("proxy", {})
    missing = [name for name, version in proxy.items() if version is None]
    said = ", ".join(f"{name} {version or 'missing'}" for name, version in proxy.items())
    yield Check("proxy", not missing, said, "pip install 'focusctx[proxy]'" if missing else "")
    there = sorted(name for name, packages in extras.items() if all(packages.values()))
    yield Check("other extras", None, ", ".join(there) or "none")


def keys() -> Check:
    """Name the keys and addresses that the environment sets. Their values are not shown."""
    found = [name for name in (*_KEYS, *_BASE_URLS) if os.environ.get(name)]
    return Check("variables", None, f"{', '.join(found)} (set)" if found else "none of the known keys is set")


def programs() -> Check:
    """Name the agents that `focusctx wrap` knows and that can be started here."""
    found = [name for name in KNOWN if shutil.which(name)]
    return Check("agents", None, ", ".join(found) or "none of those that wrap knows is on PATH")


def _extras() -> dict[str, dict[str, str | None]]:
    """Return the packages of each extra with their versions; None for one that is missing or too old."""
    try:
        required = metadata.requires("focusctx") or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, dict[str, str | None]] = {}
    for text in required:
        parts = _REQUIREMENT.match(text)
        if parts is None or parts["extra"] is None or _is_for_another_python(text):
            continue
        extras.setdefault(parts["extra"], {})[parts["name"]] = _version(parts["name"], parts["least"])
    return extras


def _is_for_another_python(text: str) -> bool:
    bound = re.search(r"python_version (<|>=) ['\"]([\d.]+)['\"]", text)
    if bound is None:
        return False
    here, there = _numbers(platform.python_version())[:2], _numbers(bound[2])
    return not (here < there if bound[1] == "<" else here >= there)


def _version(package: str, least: str | None) -> str | None:
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    return found if least is None or _numbers(found) >= _numbers(least) else None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.split("+", maxsplit=1)[0])]
