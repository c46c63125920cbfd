"""Attention for many replies to many prompts at once, in which a prompt's keys and values are stored and read once.

A reply attends to its prompt and to its own words so far. The two are computed apart and joined exactly, by the
weights that one softmax over both would have given. All replies to one prompt then share one matrix product with
its keys, whatever their number; only their own words are stored for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAME = "focusctx_shared_prompts"
"""What transformers knows it by."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which row answers which prompt, as tensors. `R` rows, `P` prompts of at most `L` tokens."""

    slots: Any
    """For each row its place in the grid of prompts × `width`."""
    width: int
    """The most rows that any prompt has."""
    mask: Any
    """[P, 1, 1, L]: 0 where the prompt has a token, -inf beyond its end."""
    lengths: Any
    """[R]: the length of each row's prompt."""


def attend(
    query: Any, prompt: tuple[Any, Any], own: tuple[Any, Any], *, layout: Layout, mask: Any, scaling: float
) -> Any:
    """One token per row: `query` [R, heads, 1, D], `prompt` [P, groups, L, D] twice, `own` [R, groups, S, D] twice."""
    import torch

    rows, heads, _, size = query.shape
    prompts, groups, _, _ = prompt[0].shape
    each = heads // groups
    query = query.reshape(rows, groups, each, size)
    grid = query.new_zeros(prompts * layout.width, groups, each, size)
    grid[layout.slots] = query
    grid = grid.view(prompts, layout.width, groups, each, size).transpose(1, 2)
    grid = grid.reshape(prompts, groups, layout.width * each, size)
    ahead = torch.cat(_part(grid, *prompt, mask=layout.mask, scaling=scaling), -1)
    ahead = ahead.view(prompts, groups, layout.width, each, size + 2).transpose(1, 2)
    ahead = ahead.reshape(-1, groups, each, size + 2)[layout.slots]
    values, top, weight = ahead.split([size, 1, 1], -1)
    own_values, own_top, own_weight = _part(query, *own, mask=mask, scaling=scaling)
    highest = torch.maximum(top, own_top)
    scale, own_scale = (top - highest).exp(), (own_top - highest).exp()
    joined = (values * scale + own_values * own_scale) / (weight * scale + own_weight * own_scale)
    return joined.to(query.dtype).reshape(rows, 1, heads, size)


def _part(query: Any, keys: Any, values: Any, *, mask: Any, scaling: float) -> tuple[Any, Any, Any]:
    """Attention before its division: the weighted sum, the highest score taken off, and the sum of the weights."""
    scores = mask.add(_product(query, keys.transpose(2, 3)), alpha=scaling)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    return _product(weights.to(values.dtype), values), top, weights.sum(-1, keepdim=True)


def _product(left: Any, right: Any) -> Any:
    """In float32 whatever goes in: a score rounded to bfloat16 can be off by half a unit."""
    import torch

    outer = left.shape[:2]
    left, right = left.flatten(0, 1), right.flatten(0, 1)
    if left.is_cuda and left.dtype != torch.float32:
        return torch.bmm(left, right, out_dtype=torch.float32).unflatten(0, outer)
    return torch.bmm(left, right).float().unflatten(0, outer)


def install(model: Any) -> bool:
    """Let the model use this attention for batches of many prompts; all else goes to the one it had."""
    from transformers import AttentionInterface, AttentionMaskInterface

    if model.config.get_text_config()._attn_implementation != "sdpa":
        return False
    usual = AttentionInterface()["sdpa"]

    def forward(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        *,
        shared_prompts: Any = None,
        **options: Any,
    ) -> tuple[Any, None]:
        if shared_prompts is None:
            return usual(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]
        if any(options.get(name) is not None for name in ("softcap", "s_aux", "position_bias")):
            raise ValueError("this model's attention does more than attend")
        return shared_prompts.attend(module.layer_idx, query, (key, value), attention_mask, options["scaling"]), None

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, AttentionMaskInterface()["sdpa"])
    model.set_attn_implementation(NAME)
    return True
