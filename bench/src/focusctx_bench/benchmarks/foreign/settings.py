"""Refuse settings that a benchmark does not have: a mistyped one would silently run something else."""

from __future__ import annotations

from collections.abc import Sequence

from focusctx.errors import ConfigError

from ...protocols import Options


def check_settings(name: str, options: Options, known: Sequence[str]) -> None:
    if unknown := sorted(options.more.keys() - set(known)):
        raise ConfigError(f"unknown setting {unknown[0]!r} of {name}; known: {', '.join(known)}")
