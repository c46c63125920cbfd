"""Request parameters a model turns out not to take: learnt from its refusals, left out from then on."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .http import BadRequest

_log = logging.getLogger(__name__)


class Rejected:
    """The optional parameters that one draft's server has refused so far."""

    def __init__(self, optional: Iterable[str]) -> None:
        self._optional = frozenset(optional)
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self._names.add(name)

    def strip(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without what the server has refused."""
        return {name: value for name, value in body.items() if name not in self._names}

    def learn(self, refusal: BadRequest, body: Mapping[str, Any]) -> str | None:
        """The optional parameter of `body` that the refusal names, if any: left out from now on."""
        name = _named(refusal, self._optional.intersection(body))
        if name is not None:
            _log.info("the draft's server does not take %r, leaving it out: %s", name, refusal)
            self._names.add(name)
        return name


def _named(refusal: BadRequest, names: Iterable[str]) -> str | None:
    if re.search(r"context.(length|window)", refusal.body, re.IGNORECASE):
        return None  # the prompt is too long; that max_tokens is named along with it is no way out
    if refusal.param is not None:
        return refusal.param if refusal.param in names else None
    # The first one named is the culprit: what is to be used in its place is named after it.
    # A backslash before the name means it is no name at all, but the n of a JSON \n.
    found = ((re.search(rf"(?<![\w\\-]){re.escape(name)}(?![\w-])", refusal.body), name) for name in names)
    return min(((match.start(), name) for match, name in found if match), default=(0, None))[1]
