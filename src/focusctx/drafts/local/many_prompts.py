"""The replies to any number of prompts in one batch; each prompt's cache is there once, for all of its replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import attention
from .model import LoadedModel

_ROUND = 64
"""Lengths grow in such steps, so that memory is not asked for anew at each token."""
_REOPEN = 0.75
"""A batch that was full takes prompts again when it is down to this share: each joining moves all the prompts."""


class ManyPrompts:
    """The caches of all prompts, padded to one length, and beside them what each row has written.

    To the model it is the cache of one short history, its rows' own words; `attend` adds the prompts.
    """

    def __init__(self, model: LoadedModel, limit: int) -> None:
        self._model = model
        self._limit = limit
        self._closed = False
        self._joining: list[Any] = []
        self._prompts: list[tuple[Any, Any]] = []
        """For each layer keys and values, [prompts, heads, length, size]."""
        self._own: list[tuple[Any, Any]] = []
        """The same for what the rows have written, [rows, heads, room, size]."""
        self._lengths: list[int] = []
        self._owners: list[int] = []
        """For each row its prompt."""
        self._written: list[int] = []
        self._most: list[int] = []
        """For each row how many tokens it may get."""
        self._layout: attention.Layout | None = None
        self._now: Any = None

    def room_for(self, prompt: int, rows: int, tokens: int) -> bool:
        if not self._owners:
            self._closed = False
            return True
        if self._closed and self._size() > _REOPEN * self._limit:
            return False
        self._closed = self._size(prompt, [tokens] * rows) > self._limit
        return not self._closed

    def _size(self, prompt: int = 0, rows: Sequence[int] = ()) -> int:
        """The tokens that the batch would hold at most, padding counted."""
        lengths = [self._lengths[place] for place in set(self._owners)] + [prompt] * bool(prompt)
        most = [*self._most, *rows]
        return len(lengths) * max(lengths, default=0) + len(most) * max(most, default=0)

    def add(self, cache: Any, rows: int, tokens: int) -> None:
        self._joining.append(cache)
        self._owners += [len(self._lengths)] * rows
        self._lengths.append(cache.get_seq_length())
        self._written += [0] * rows
        self._most += [tokens] * rows

    def keep(self, live: Sequence[int]) -> None:
        settled = [place for place in live if place < self._settled()]
        if len(settled) < self._settled():
            index = self._model.torch.tensor(settled, device=self._model.device)
            self._own = [(keys[index], values[index]) for keys, values in self._own] if settled else []
        for values in (self._owners, self._written, self._most):
            values[:] = [values[place] for place in live]
        if not live:
            self._lengths, self._joining, self._prompts = [], [], []
        self._layout = None

    def step(self, tokens: Sequence[int]) -> Any:
        torch, device = self._model.torch, self._model.device
        if self._joining or 2 * len(set(self._owners)) <= len(self._lengths):
            self._move()
        layout = self._layout = self._layout or self._arrange()
        reach = max(self._written) + 1
        self._make_room(reach)
        written = torch.tensor(self._written, device=device)
        ahead = torch.arange(reach, device=device) > written[:, None]
        mask = torch.zeros(ahead.shape, device=device).masked_fill_(ahead, float("-inf"))[:, None, None]
        self._now = (torch.arange(len(tokens), device=device), written, reach)
        logits, _ = self._model.forward(
            [[token] for token in tokens],
            self,
            position_ids=(layout.lengths + written)[:, None],
            attention_mask=mask,
            shared_prompts=self,
        )
        self._written = [count + 1 for count in self._written]
        return logits[:, -1]

    def _move(self) -> None:
        """Take in the prompts that join, and let go of those whose rows have all ended."""
        old = len(self._lengths) - len(self._joining)
        needed = sorted(set(self._owners))
        stay = self._model.torch.tensor([place for place in needed if place < old], device=self._model.device)
        caches = [self._joining[place - old] for place in needed if place >= old]
        self._lengths = [self._lengths[place] for place in needed]
        self._joining = []
        for layer in range(len(self._prompts) or len(caches[0].layers)):
            keys, values = self._prompts[layer] if self._prompts and len(stay) else (None, None)
            joined = (
                self._pad(keys, stay, [cache.layers[layer].keys for cache in caches]),
                self._pad(values, stay, [cache.layers[layer].values for cache in caches]),
            )
            self._prompts[layer : layer + 1] = [joined]
            for cache in caches:  # layer by layer, or all the prompts would be in memory twice
                cache.layers[layer].keys = cache.layers[layer].values = None
        places = {place: new for new, place in enumerate(needed)}
        self._owners = [places[owner] for owner in self._owners]
        self._layout = None

    def _pad(self, old: Any, stay: Any, new: list[Any]) -> Any:
        """One tensor of those rows of the old one that stay, and the new ones behind them."""
        longest = -(-max(self._lengths) // _ROUND) * _ROUND
        like = new[0] if old is None else old
        padded = like.new_zeros(len(self._lengths), like.shape[1], longest, like.shape[3])
        if old is not None:
            width = min(longest, old.shape[2])
            padded[: len(stay), :, :width] = old[stay, :, :width]
        for place, part in enumerate(new, len(stay)):
            padded[place, :, : part.shape[2]] = part[0]
        return padded

    def _arrange(self) -> attention.Layout:
        torch, device = self._model.torch, self._model.device
        seen = [0] * len(self._lengths)
        order = []
        for owner in self._owners:
            order.append(seen[owner])
            seen[owner] += 1
        width = max(seen)
        lengths = torch.tensor(self._lengths, device=device)
        beyond = torch.arange(self._prompts[0][0].shape[2], device=device) >= lengths[:, None]
        return attention.Layout(
            slots=torch.tensor([o * width + k for o, k in zip(self._owners, order, strict=True)], device=device),
            width=width,
            mask=torch.zeros(beyond.shape, device=device).masked_fill_(beyond, float("-inf"))[:, None, None],
            lengths=lengths[torch.tensor(self._owners, device=device)],
        )

    def _make_room(self, reach: int) -> None:
        """Space for the rows' own words: for new rows, and twice as much whenever it runs out."""
        rows, have = self._settled(), self._own[0][0].shape[2] if self._own else 0
        if rows == len(self._owners) and have >= reach:
            return
        room = have if have >= reach else max(_ROUND, 2 * have)

        def widen(old: Any, like: Any) -> Any:
            space = like.new_zeros(len(self._owners), like.shape[1], room, like.shape[3])
            if rows:
                space[:rows, :, :have] = old
            return space

        own = self._own or [(None, None)] * len(self._prompts)
        self._own = [
            (widen(keys, prompt_keys), widen(values, prompt_values))
            for (keys, values), (prompt_keys, prompt_values) in zip(own, self._prompts, strict=True)
        ]

    def _settled(self) -> int:
        """The rows that have written something; those that joined since come behind them."""
        return len(self._own[0][0]) if self._own else 0

    def get_seq_length(self, layer: int = 0) -> int:  # noqa: ARG002
        return 0

    def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
        rows, written, reach = self._now
        own_keys, own_values = self._own[layer]
        own_keys[rows, :, written] = keys[:, :, 0]
        own_values[rows, :, written] = values[:, :, 0]
        return own_keys[:, :, :reach], own_values[:, :, :reach]

    def attend(self, layer: int, query: Any, own: tuple[Any, Any], mask: Any, scaling: float) -> Any:
        assert self._layout is not None
        return attention.attend(query, self._prompts[layer], own, layout=self._layout, mask=mask, scaling=scaling)
