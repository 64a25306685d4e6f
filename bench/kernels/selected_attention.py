"""Attention of queries at arbitrary positions over a partially fused prefix (QCFuse, eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from bench.kernels.place import Place

Mask = Literal["exact", "released"]

BLOCK = 64
"""Rows attended together; of 32, 64, 128 and 192 about the fastest on two cores, fp32 and bf16 alike."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows and what they see: keys 0..keys-1 under an additive mask [rows, keys]."""

    rows: slice
    keys: int
    mask: torch.Tensor


class Rows:
    """The rows of a forward pass: sorted request positions [R] int64. The row at p sees keys 0..p.

    A bottom-right aligned causal mask lets selected rows see the future (the fault reported for
    CacheBlend's and LMCache's released code); the mask has to use original positions. To compare with
    that code, `sees` gives another last visible position for each row, sorted.
    """

    def __init__(self, positions: torch.Tensor, sees: torch.Tensor | None = None) -> None:
        self.positions = positions
        self.sees = positions if sees is None else sees
        self._blocks: dict[torch.dtype, list[Block]] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def blocks(self, dtype: torch.dtype) -> list[Block]:
        """The mask in blocks of rows, so that keys behind a block's last position are not looked at."""
        if dtype not in self._blocks:
            self._blocks[dtype] = [self._block(at, dtype) for at in range(0, len(self), BLOCK)]
        return self._blocks[dtype]

    def _block(self, begin: int, dtype: torch.dtype) -> Block:
        at = self.sees[begin : begin + BLOCK]
        keys = int(at[-1]) + 1
        hidden = torch.arange(keys, device=at.device)[None, :] > at[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=at.device).masked_fill_(hidden, float("-inf"))
        return Block(slice(begin, begin + len(at)), keys, mask)


def rows_of(positions: torch.Tensor, total: int, mask: Mask) -> Rows:
    """Rows under the exact mask, or under the released codes' bottom-right aligned one over `total` keys."""
    if mask == "exact":
        return Rows(positions)
    return Rows(positions, torch.arange(total - len(positions), total, device=positions.device))


def selected_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: Place, rows: Rows, scale: float
) -> torch.Tensor:
    """Softmax attention of rows over the keys they see.

    q [R, Hq, D]; keys and values [slots, Hkv, D] hold request position i in slot `place.at[i]`.
    Returns [R, Hq, D].
    """
    if q.is_cuda:
        from bench.kernels import triton_selected_attention as fast

        return fast.selected_attention(q, keys, values, place.at, rows.sees, scale)
    return attend_blocks(q, place.of(keys), place.of(values), rows.blocks(q.dtype), scale)


def attend_blocks(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: list[Block], scale: float
) -> torch.Tensor:
    """The torch reference, and the CPU path: k and v [n, Hkv, D] in order of positions."""
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    q, k, v = (x.movedim(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    for b in blocks:
        seen = F.scaled_dot_product_attention(
            q[:, :, b.rows], k[:, :, : b.keys], v[:, :, : b.keys], attn_mask=b.mask, scale=scale,
            enable_gqa=grouped,
        )  # fmt: skip
        out[b.rows] = seen[0].movedim(1, 0)
    return out
