"""Likelihoods of given answers by a model in this process, token by token, with and without a past span."""

from __future__ import annotations

import asyncio
import copy
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from focusctx.drafts.transformers import LoadedModel, TransformersDraft
from focusctx.errors import DraftRefused
from focusctx.types import Prompt


@dataclass(frozen=True, slots=True)
class Scored:
    """The likelihood of a text, token by token."""

    starts: tuple[int, ...]
    """For each token, the place in the text at which it begins, in characters."""
    logs: tuple[float, ...]
    """For each token, the natural logarithm of its probability after the prompt and the tokens before it."""

    @property
    def total(self) -> float:
        return sum(self.logs)


def without_span(prompt: Prompt, label: str) -> Prompt:
    """Return the prompt without the line of this span (`s_3`); every other byte stays."""
    user, found = re.subn(rf"^\[{re.escape(label)}\] \|.*\n?", "", prompt.user, count=1, flags=re.MULTILINE)
    if not found:
        raise ValueError(f"the prompt has no line of {label}")
    return replace(prompt, user=user)


_Text: TypeAlias = tuple[list[int], tuple[int, ...]]
"""An answer's tokens, and where each begins."""

_AT_ONCE = 2048
"""Tokens scored in one pass: each needs a score for every word of the vocabulary."""


class TransformersScorer:
    """A `TransformersDraft` whose probabilities can be read, too."""

    def __init__(self, draft: TransformersDraft) -> None:
        self._draft = draft
        self.name = draft.name
        self.sample = draft.sample

    async def score(self, prompts: Sequence[Prompt], continuations: Sequence[str]) -> list[list[Scored]]:
        """Score each continuation as the answer to each prompt: one list per prompt, in their order.

        A prompt is read once for all continuations, and what it shares with the beginning of the prompt before
        it is not read again: where spans are left out one at a time, begin with the last. Calls may run
        concurrently. The prompts' temperature and limits are ignored.
        """
        stop = threading.Event()
        job = self._draft.submit(lambda model, stopped: list(_score(model, prompts, continuations, stopped)), stop)
        try:
            return await asyncio.wrap_future(job)
        finally:
            stop.set()


def _score(
    model: LoadedModel, prompts: Sequence[Prompt], continuations: Sequence[str], stopped: Callable[[], bool]
) -> Iterator[list[Scored]]:
    """Yield one list per prompt. What a prompt shares with the beginning of the one before it is not read again."""
    texts = [_encode(model, text) for text in continuations]
    longest = max((len(tokens) for tokens, _ in texts), default=0)
    read: list[int] = []
    cache: Any = None
    for prompt in prompts:
        tokens = model.encode(prompt)
        model.check_room(len(tokens), longest)
        # The last token is left for the pass over the answers: the first answer token is predicted there.
        *ahead, last = tokens
        # Every layer must have all tokens: one with a window has forgotten the oldest.
        can_go_back = cache is not None and all(type(layer).__name__ == "DynamicLayer" for layer in cache.layers)
        shared = _common(read, ahead) if can_go_back else 0
        if not shared:
            cache = None
        elif shared < len(read):
            cache.crop(shared - len(read))
        cache = model.read(ahead[shared:], stopped, cache)
        read = ahead
        with _exact_head(model):
            found = _after(model, cache, last, texts)
        yield found


def _encode(model: LoadedModel, text: str) -> _Text:
    if not model.tokenizer.is_fast:
        raise DraftRefused("likelihoods need a fast tokenizer: this one cannot say where its tokens begin")
    encoded = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return list(encoded["input_ids"]), tuple(start for start, _ in encoded["offset_mapping"])


@contextmanager
def _exact_head(model: LoadedModel) -> Iterator[None]:
    """Run the last layer in float32: in bfloat16 a score of 30 is exact to an eighth only, and differences count."""
    torch, head = model.torch, model.model.get_output_embeddings()
    if head.weight.dtype not in (torch.bfloat16, torch.float16):
        yield
        return
    weight, bias = head.weight.float(), None if head.bias is None else head.bias.float()
    head.forward = lambda hidden: torch.nn.functional.linear(hidden.float(), weight, bias)
    try:
        yield
    finally:
        del head.forward  # the method of its class is there again


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of leading tokens that are the same."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _after(model: LoadedModel, cache: Any, last: int, texts: Sequence[_Text]) -> list[Scored]:
    """Score the answers to one prompt, as many at once as memory allows, those of like length together."""
    found: dict[int, Scored] = {}
    order = sorted(range(len(texts)), key=lambda place: len(texts[place][0]))
    while order:
        count = max(1, sum((k + 1) * len(texts[place][0]) <= _AT_ONCE for k, place in enumerate(order)))
        batch, order = order[:count], order[count:]
        found.update(zip(batch, _score_batch(model, cache, last, [texts[place] for place in batch]), strict=True))
    return [found[place] for place in range(len(texts))]


def _score_batch(model: LoadedModel, cache: Any, last: int, texts: Sequence[_Text]) -> list[Scored]:
    """Score answers in one pass, padded at the end, where no token looks."""
    torch, device = model.torch, model.device
    width = max(len(tokens) for tokens, _ in texts)
    if not width:
        return [Scored((), ()) for _ in texts]
    repeated = copy.deepcopy(cache)  # the pass writes into it
    repeated.reorder_cache(torch.zeros(len(texts), dtype=torch.long, device=device))
    padded = [(tokens + [last] * width)[:width] for tokens, _ in texts]
    given = torch.tensor([[last, *tokens[:-1]] for tokens in padded], device=device)
    logits = model.model(input_ids=given, past_key_values=repeated, use_cache=True, logits_to_keep=width).logits.float()
    wanted = torch.tensor(padded, device=device)[:, :, None]
    logs = (logits.gather(-1, wanted)[:, :, 0] - logits.logsumexp(-1)).tolist()
    return [Scored(starts, tuple(row[: len(tokens)])) for (tokens, starts), row in zip(texts, logs, strict=True)]
