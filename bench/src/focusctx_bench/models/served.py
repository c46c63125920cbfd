"""Ask a model over HTTP: patience, parameters it does not take, failures as `ModelError`, and the cost of a request.

Connections, keys and retries are those of the drafts (`drafts/http.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from focusctx.drafts.http import BadRequest, Endpoint, RejectedParameters, open_session
from focusctx.errors import DraftError, ModelError
from focusctx.prices import price_of
from focusctx.types import Message, Usage

from ..protocols import ContextTooLong, Turn

TIMEOUT = 300.0
"""Seconds one answer may take."""

RETRIES = 10
"""With their growing waits, over a minute: a rate limit that counts by the minute is over by then."""

_TOO_LONG = re.compile(r"context.{0,3}(length|window)|prompt is too long|maximum.{0,20}tokens", re.IGNORECASE)


class Server:
    """One URL that answers an agent's requests."""

    def __init__(self, endpoint: Endpoint, optional: Iterable[str]) -> None:
        self.endpoint = replace(endpoint, timeout=TIMEOUT, retries=RETRIES)
        self._rejected = RejectedParameters(optional)

    async def ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, asked again without each optional parameter that the server refuses."""
        try:
            async with open_session() as session:
                while True:
                    sent = self._rejected.strip(body)
                    try:
                        return await self.endpoint.post(session, sent)
                    except BadRequest as refusal:
                        if _TOO_LONG.search(refusal.body):
                            raise ContextTooLong(str(refusal)) from refusal
                        if self._rejected.learn(refusal, sent) is None:
                            raise
        except DraftError as error:
            raise ModelError(str(error)) from error

    def malformed(self, what: str, sent: object) -> ModelError:
        return ModelError(str(self.endpoint.malformed(what, sent)))


def priced_turn(
    model: str, message: Message, input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0
) -> Turn:
    """Return a turn with its cost. `cached` and `written`: tokens of the input read from and put into the cache."""
    price = price_of(model)
    if price is None:
        return Turn(message, Usage(1, input_tokens, output_tokens, None), cached, None)
    cost = price.cost(input_tokens, output_tokens)
    moved = cached * (price.cache_read - 1) + written * (price.cache_write - 1)
    return Turn(message, Usage(1, input_tokens, output_tokens, cost), cached, cost + moved * price.input / 1_000_000)
