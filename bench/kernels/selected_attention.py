"""Attention of queries at arbitrary positions over a partially fused prefix (QCFuse, eq. 7)."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def exact_mask(positions: torch.Tensor, keys: int) -> torch.Tensor:
    """[R, keys] bool: the row at position p sees keys 0..p and nothing later.

    A bottom-right aligned causal mask would let selected rows see the future (the fault reported for
    CacheBlend's and LMCache's released code); the mask has to use original positions.
    """
    return torch.arange(keys, device=positions.device)[None, :] <= positions[:, None]


def selected_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    """Softmax attention under a given mask.

    q [R, Hq, D], k and v [n, Hkv, D], mask [R, n] bool (True = visible). Returns [R, Hq, D].
    """
    out = F.scaled_dot_product_attention(
        q.movedim(0, 1)[None], k.movedim(0, 1)[None], v.movedim(0, 1)[None],
        attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1],
    )  # fmt: skip
    return out[0].movedim(1, 0)
