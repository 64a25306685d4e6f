"""Attention of one new token a request over that request's whole cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def decode_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, scale: float
) -> torch.Tensor:
    """Softmax attention of q [B, Hq, D] over k and v [B, T, Hkv, D], of which the first lengths[b] count.

    The query heads of one group attend as rows of one product, so keys and values are not repeated.
    Returns [B, Hq, D].
    """
    batch, heads, size = q.shape
    kv_heads = k.shape[2]
    grouped = q.view(batch, kv_heads, heads // kv_heads, size)
    mask = None
    if bool((lengths < k.shape[1]).any()):
        mask = (torch.arange(k.shape[1], device=q.device) < lengths[:, None])[:, None, None]
    out = F.scaled_dot_product_attention(
        grouped, k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, scale=scale
    )
    return out.reshape(batch, heads, v.shape[-1])
