"""Request parameters that a model does not accept: learnt from its refusals, and left out from then on."""

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
        """Return the body without the parameters that the server has refused."""
        return {name: value for name, value in body.items() if name not in self._names}

    def learn(self, refusal: BadRequest, body: Mapping[str, Any]) -> str | None:
        """Return the optional parameter of `body` that the refusal names, if any, and leave it out from now on."""
        name = _named(refusal, self._optional.intersection(body))
        if name is not None:
            _log.info("the draft's server does not take %r, leaving it out: %s", name, refusal)
            self._names.add(name)
        return name


def _named(refusal: BadRequest, names: Iterable[str]) -> str | None:
    if re.search(r"context.(length|window)", refusal.body, re.IGNORECASE):
        return None  # the prompt is too long: leaving out max_tokens, if that is named too, does not help
    if refusal.param is not None:
        return refusal.param if refusal.param in names else None
    # The first name is the refused one: the parameter to use instead is named after it.
    # After a backslash it is not a name, but the n of a JSON \n.
    found = ((re.search(rf"(?<![\w\\-]){re.escape(name)}(?![\w-])", refusal.body), name) for name in names)
    return min(((match.start(), name) for match, name in found if match), default=(0, None))[1]
