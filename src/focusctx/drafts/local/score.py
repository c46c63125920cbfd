"""How likely a model finds given answers, token by token."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ...errors import DraftRefused
from ...types import Prompt
from ..likelihood import Scored
from .model import LoadedModel

_Text: TypeAlias = tuple[list[int], tuple[int, ...]]
"""An answer's tokens, and where each begins."""

_AT_ONCE = 2048
"""Tokens scored in one pass: each needs a score for every word of the vocabulary."""


def score(
    model: LoadedModel, prompts: Sequence[Prompt], continuations: Sequence[str], stopped: Callable[[], bool]
) -> Iterator[list[Scored]]:
    """One list per prompt. What a prompt has in common with the one before it is not read again."""
    texts = [_encode(model, text) for text in continuations]
    longest = max((len(tokens) for tokens, _ in texts), default=0)
    read: list[int] = []
    cache: Any = None
    for prompt in prompts:
        tokens = model.encode(prompt)
        model.check_room(len(tokens), longest)
        # The last token is left for the pass over the answers: what follows it is what is asked.
        *ahead, last = tokens
        shared = _common(read, ahead) if cache is not None and _can_go_back(cache) else 0
        cache = _cut(cache, len(read) - shared) if shared else None
        _, cache = model.read(ahead[shared:], stopped, cache)
        read = ahead
        with _exact_head(model):
            found = _after(model, cache, last, texts)
        yield found


def _encode(model: LoadedModel, text: str) -> _Text:
    """The tokens of an answer, and where each begins."""
    if not model.tokenizer.is_fast:
        raise DraftRefused("likelihoods need a fast tokenizer: this one cannot say where its tokens begin")
    encoded = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return list(encoded["input_ids"]), tuple(start for start, _ in encoded["offset_mapping"])


@contextmanager
def _exact_head(model: LoadedModel) -> Iterator[None]:
    """The last layer in float32: in bfloat16 a score of 30 is known to an eighth only, and differences are wanted."""
    torch, head = model.torch, model.model.get_output_embeddings()
    if head.weight.dtype not in (torch.bfloat16, torch.float16):
        yield
        return
    weight, bias = head.weight.float(), None if head.bias is None else head.bias.float()
    head.forward = lambda hidden: torch.nn.functional.linear(hidden.float(), weight, bias)
    try:
        yield
    finally:
        del head.forward  # its class has another one


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _cut(cache: Any, count: int) -> Any:
    if count:
        cache.crop(-count)
    return cache


def _can_go_back(cache: Any) -> bool:
    """Only a layer that has all tokens can be cut: one with a window has forgotten what came before it."""
    return all(type(layer).__name__ == "DynamicLayer" for layer in cache.layers)


def _after(model: LoadedModel, cache: Any, last: int, texts: Sequence[_Text]) -> list[Scored]:
    """The answers to one prompt, as many at once as memory allows, those of like length together."""
    found: dict[int, Scored] = {}
    order = sorted(range(len(texts)), key=lambda place: len(texts[place][0]))
    while order:
        count = max(1, sum((k + 1) * len(texts[place][0]) <= _AT_ONCE for k, place in enumerate(order)))
        batch, order = order[:count], order[count:]
        found.update(zip(batch, _score_batch(model, cache, last, [texts[place] for place in batch]), strict=True))
    return [found[place] for place in range(len(texts))]


def _score_batch(model: LoadedModel, cache: Any, last: int, texts: Sequence[_Text]) -> list[Scored]:
    """They are padded behind, where nothing looks."""
    torch, device = model.torch, model.device
    width = max(len(tokens) for tokens, _ in texts)
    if not width:
        return [Scored((), ()) for _ in texts]
    repeated = copy.deepcopy(cache)  # the pass writes into it
    repeated.reorder_cache(torch.zeros(len(texts), dtype=torch.long, device=device))
    padded = [(tokens + [last] * width)[:width] for tokens, _ in texts]
    logits, _ = model.forward([[last, *tokens[:-1]] for tokens in padded], repeated, last=width)
    wanted = torch.tensor(padded, device=device)[:, :, None]
    logits = logits.float()
    logs = (logits.gather(-1, wanted)[:, :, 0] - logits.logsumexp(-1)).tolist()
    return [Scored(starts, tuple(row[: len(tokens)])) for (tokens, starts), row in zip(texts, logs, strict=True)]
