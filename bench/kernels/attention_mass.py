"""Attention mass each context position receives from the query tokens (QCFuse, eq. 10 and 18)."""

from __future__ import annotations

from typing import Literal

import torch

Reduce = Literal["mean", "max"]


def attention_mass(
    q: torch.Tensor,
    context: torch.Tensor,
    own: torch.Tensor,
    scale: float,
    heads: Reduce = "mean",
    tokens: Reduce = "mean",
    segments: list[tuple[int, int]] | None = None,
) -> torch.Tensor:
    """Softmax mass on every context key, reduced over heads and query tokens.

    q [T, Hq, D] and own [T, Hkv, D] are the query tokens' queries and keys, context [M, Hkv, D] the
    context keys, all after RoPE. The softmax runs over all context keys and, causally, the query
    tokens' own; with `segments` (begin, end) over each segment's keys alone (FusionRAG's released
    rule) and 0 outside them. fp32 throughout. Returns [M].
    """
    if q.is_cuda:
        from bench.kernels import triton_attention_mass as fast

        return fast.attention_mass(q, context, own, scale, heads, tokens, segments)
    return whole_matrix(q, context, own, scale, heads, tokens, segments)


def whole_matrix(
    q: torch.Tensor,
    context: torch.Tensor,
    own: torch.Tensor,
    scale: float,
    heads: Reduce = "mean",
    tokens: Reduce = "mean",
    segments: list[tuple[int, int]] | None = None,
) -> torch.Tensor:
    """The torch reference, and the CPU path: `attention_mass` by way of the whole matrix of weights."""
    t, hq, d = q.shape
    group = hq // context.shape[1]
    queries = q.float().movedim(0, 1).reshape(context.shape[1], group * t, d)
    logits = scale * queries @ context.float().movedim(0, 1).mT  # [Hkv, G*T, M]
    if segments is None:
        mine = (scale * queries @ own.float().movedim(0, 1).mT).view(-1, group, t, t)
        future = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        mine = mine.masked_fill(future, float("-inf")).reshape(-1, group * t, t)
        mass = torch.cat((logits, mine), -1).softmax(-1)[..., : context.shape[0]]
    else:
        mass = torch.zeros_like(logits)
        for begin, end in segments:
            mass[..., begin:end] = logits[..., begin:end].softmax(-1)
    mass = mass.view(hq, t, -1)
    mass = mass.amax(0) if heads == "max" else mass.mean(0)
    return mass.amax(0) if tokens == "max" else mass.mean(0)
