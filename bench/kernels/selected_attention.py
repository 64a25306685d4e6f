"""Attention of queries at arbitrary positions over a partially fused prefix (QCFuse, eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from bench.kernels.place import Place

Mask = Literal["exact", "released"]

BLOCK = 40
"""Rows attended together. Fewer look at fewer keys behind their own position, more keep the processor
busier: of 32 to 64 the fastest on two cores at rho 0.1, fp32 and bf16 alike, for groups of 3 and of 7."""


@dataclass(frozen=True)
class Block:
    """Some consecutive rows and what they see: keys 0..keys-1 under an additive mask [G * rows, keys].

    The G query heads that share a key-value head stand below one another, each with all the rows.
    """

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
        self._blocks: dict[tuple[torch.dtype, int], list[Block]] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def blocks(self, dtype: torch.dtype, group: int) -> list[Block]:
        """The mask in blocks of rows, so that keys behind a block's last position are not looked at.

        `group` is G, the number of query heads that share a key-value head.
        """
        if (dtype, group) not in self._blocks:
            begins = range(0, len(self), BLOCK)
            self._blocks[dtype, group] = [self._block(begin, dtype, group) for begin in begins]
        return self._blocks[dtype, group]

    def _block(self, begin: int, dtype: torch.dtype, group: int) -> Block:
        at = self.sees[begin : begin + BLOCK]
        keys = int(at[-1]) + 1
        hidden = torch.arange(keys, device=at.device)[None, :] > at[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=at.device).masked_fill_(hidden, float("-inf"))
        return Block(slice(begin, begin + len(at)), keys, mask.repeat(group, 1))


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
    return attend_rows(q, place.of(keys), place.of(values), rows, scale)


def attend_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rows: Rows, scale: float) -> torch.Tensor:
    """The torch reference, and the CPU path: k and v [n, Hkv, D] in order of positions.

    Query heads that share a key-value head go through as more rows of it: larger products, same keys.
    """
    heads, size = k.shape[1], q.shape[-1]
    group = q.shape[1] // heads
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    k, v = k.movedim(0, 1)[None], v.movedim(0, 1)[None]
    for b in rows.blocks(q.dtype, group):
        folded = q[b.rows].view(-1, heads, group, size).permute(1, 2, 0, 3).reshape(1, heads, -1, size)
        seen = F.scaled_dot_product_attention(
            folded, k[:, :, : b.keys], v[:, :, : b.keys], attn_mask=b.mask, scale=scale
        )
        out[b.rows] = seen[0].view(heads, group, -1, v.shape[-1]).permute(2, 0, 1, 3).flatten(1, 2)
    return out
