"""Attention of queries at arbitrary positions over a partially fused prefix (QCFuse, eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

BLOCK = 64
"""Rows attended together; of 32, 64, 128 and 192 about the fastest on two cores, fp32 and bf16 alike."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows and what they see: keys 0..keys-1 under an additive mask [rows, keys]."""

    rows: slice
    keys: int
    mask: torch.Tensor


def visible(positions: torch.Tensor, dtype: torch.dtype) -> list[Block]:
    """The exact positional mask of sorted positions [R]: the row at position p sees keys 0..p.

    A bottom-right aligned causal mask would let selected rows see the future (the fault reported for
    CacheBlend's and LMCache's released code); the mask has to use original positions. In blocks of
    rows, so that keys behind a block's last position are not looked at. Made once a forward pass.
    """
    blocks = []
    for begin in range(0, len(positions), BLOCK):
        at = positions[begin : begin + BLOCK]
        keys = int(at[-1]) + 1
        hidden = torch.arange(keys, device=positions.device)[None, :] > at[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=positions.device).masked_fill_(
            hidden, float("-inf")
        )
        blocks.append(Block(slice(begin, begin + len(at)), keys, mask))
    return blocks


def selected_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: list[Block], scale: float
) -> torch.Tensor:
    """Softmax attention of rows over the keys they see.

    q [R, Hq, D], k and v [n, Hkv, D], `blocks` from `visible`. Returns [R, Hq, D].
    """
    q, k, v = (x.movedim(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out = [
        F.scaled_dot_product_attention(
            q[:, :, b.rows], k[:, :, : b.keys], v[:, :, : b.keys], attn_mask=b.mask, scale=scale,
            enable_gqa=grouped,
        )
        for b in blocks
    ]  # fmt: skip
    return torch.cat(out, 2)[0].movedim(1, 0)
