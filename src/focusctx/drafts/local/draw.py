"""The next token of every row in one go, each from a random stream of its own.

A row's random numbers are drawn beforehand from its seed, one per token. What a row draws then depends on nothing
but its own scores, and the program's own random numbers stay untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def numbers(torch: Any, seed: int, count: int) -> list[float]:
    """A row's random numbers in [0, 1), the same on every machine."""
    stream = torch.Generator("cpu").manual_seed(seed)
    return torch.rand(count, generator=stream, dtype=torch.float64).tolist()  # type: ignore[no-any-return]


def draw(torch: Any, scores: Any, temperatures: Sequence[float], chosen: Sequence[float], min_p: float) -> list[int]:
    """For each row the likeliest token (temperature 0), or the one at which the sum of chances passes its number."""
    best = scores.argmax(-1)
    if not any(temperatures):
        return best.tolist()  # type: ignore[no-any-return]
    heat = torch.tensor(temperatures, device=scores.device)[:, None]
    chances = torch.softmax(scores.float() / heat.clamp(min=1e-6), dim=-1)
    chances = chances.masked_fill_(chances < min_p * chances.amax(-1, keepdim=True), 0)
    sums = chances.cumsum(-1)
    marks = torch.tensor(chosen, device=scores.device, dtype=sums.dtype)[:, None] * sums[:, -1:]
    drawn = torch.searchsorted(sums, marks, right=True).clamp(max=sums.shape[-1] - 1)
    # Where rounding led to a token that has no chance, and at temperature 0: the likeliest.
    valid = (chances.gather(-1, drawn) > 0) & (heat > 0)
    return torch.where(valid, drawn, best[:, None])[:, 0].tolist()  # type: ignore[no-any-return]
