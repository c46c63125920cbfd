"""Model prices, from prices.toml beside this file and from your own file if FOCUSCTX_PRICES names one.

A model without an entry has no price: the answer is None, never a guess from a similar name.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from .errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One model's list price in USD per million tokens, and its cache rules as multiples of `input`."""

    input: float
    output: float
    cache_read: float = 1.0
    """Price of a cached input token as a multiple of `input`; 1 means no discount."""
    cache_write: float = 1.0
    """Price of writing a token to the cache; 1 means no surcharge."""
    cache_write_hour: float | None = None
    """Price of writing a token to a one-hour cache entry, if the vendor sells one."""
    cache_ttl: float | None = None
    """Seconds an unused cache entry lives; None if not clearly documented."""
    context: int | None = None
    """Most input tokens one call may have."""

    def cost(self, input_tokens: float, output_tokens: float = 0) -> float:
        """Return the USD for uncached input and output."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


def price_of(model: str) -> Price | None:
    """Return the price of a model by the name agents use, e.g. `openai:gpt-5-mini-2025-08-07`; None if unknown."""
    prices = _prices(os.environ.get("FOCUSCTX_PRICES", ""))
    return next((prices[name] for name in _spellings(model) if name in prices), None)


_VENDOR = re.compile(
    r"(openai|openai_compatible|azure|anthropic|google|gemini|google_genai|vertex_ai|deepseek|dashscope(?=.qwen)|qwen"
    r"|moonshot|moonshotai|zai|z-ai|xai|x-ai|mistral|mistralai|litellm|openrouter)[:/]"
)
"""Prefixes that name the model's maker, or a gateway that charges the maker's price. Hosts with their own prices are
not listed (Dashscope has them for all but Qwen): their names stay whole, for FOCUSCTX_PRICES to list."""

_SUFFIX = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest|preview)$")
"""Endings that name a release of the same model. Others (`-pro`, `-audio`, `-5`) name another model."""


def _spellings(model: str) -> list[str]:
    """Return the name as given, then ever shorter: without vendors, then without release endings."""
    names = [model.strip().lower()]
    while match := _VENDOR.match(names[-1]):
        names.append(names[-1][match.end() :])
    while match := _SUFFIX.search(names[-1]):
        names.append(names[-1][: match.start()])
    return names


@cache
def _prices(own: str) -> Mapping[str, Price]:
    """Return all entries by lower-case name; the user's own file overrides the shipped one. Read once."""
    shipped = _read(Path(__file__).with_name("prices.toml"))
    return {**shipped, **_read(Path(own))} if own else shipped


def _read(path: Path) -> dict[str, Price]:
    import tomllib

    try:
        models = tomllib.loads(path.read_text(encoding="utf-8")).get("models")
    except (OSError, ValueError) as error:
        raise ConfigError(f"prices file {path}: {error}") from error
    if not isinstance(models, dict):
        raise ConfigError(f"prices file {path}: add a [models] table")
    return {name.lower(): _entry(path, name, entry) for name, entry in models.items()}


def _entry(path: Path, name: str, entry: Any) -> Price:
    where = f"prices file {path}, model {name!r}"
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: must be a table, got {entry!r}")
    known = [field.name for field in fields(Price)]
    for key, number in entry.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ConfigError(f"{where}: {key} must be a number, 0 or more, got {number!r}")
    for key in ("input", "output"):
        if key not in entry:
            raise ConfigError(f"{where}: {key} is missing")
    return Price(**entry)
