"""Cost of one request of the agent: at list prices, as the paper counts, and as billed, with the cache's prices."""

from __future__ import annotations

from focusctx.prices import price_of
from focusctx.types import Message, Usage

from .protocols import Turn


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
