"""Rows by index: fresh keys and values into the pool, and a gather of hidden states."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from bench.kernels.triton_target import padded

LINES = 32
"""Lines, one (row, head) each, that a program of the scatter moves."""
WIDTH = 1024
"""Lanes of one row, at most, that a program of the gather moves."""


@triton.jit(do_not_specialize=["lines"])  # type: ignore[untyped-decorator]
def _scatter_rows(  # type: ignore[no-untyped-def]
    k, v, slots, pool_keys, pool_values, lines,
    k_row, k_head, k_lane, v_row, v_head, v_lane, to_k_slot, to_k_head, to_v_slot, to_v_head,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)
    row, head = line // HEADS, line % HEADS
    slot = tl.load(slots + row, mask=line < lines, other=0).to(tl.int64)
    row = row.to(tl.int64)
    lane = tl.arange(0, BLOCK_D)[None, :]
    inside = (line < lines)[:, None] & (lane < D)
    fresh = tl.load(k + (row * k_row + head * k_head)[:, None] + lane * k_lane, mask=inside)
    tl.store(pool_keys + (slot * to_k_slot + head * to_k_head)[:, None] + lane, fresh, mask=inside)
    fresh = tl.load(v + (row * v_row + head * v_head)[:, None] + lane * v_lane, mask=inside)
    tl.store(pool_values + (slot * to_v_slot + head * to_v_head)[:, None] + lane, fresh, mask=inside)


def scatter_rows(
    k: torch.Tensor,
    v: torch.Tensor,
    slots: torch.Tensor,
    pool_keys: torch.Tensor,
    pool_values: torch.Tensor,
) -> None:
    """Write recomputed rows over the stitched cache (QCFuse, eq. 7): pool[slots[r]] = row r.

    k and v [R, Hkv, D], any strides; slots [R] int64, distinct; the pool's tensors [slots, Hkv, D] with
    contiguous lanes, in a dtype that the rows are cast to.
    """
    if pool_keys.stride(-1) != 1 or pool_values.stride(-1) != 1:
        raise ValueError("the lanes of the pool have to be contiguous")
    rows, heads, size = k.shape
    lines = rows * heads
    if not lines:
        return
    _scatter_rows[(triton.cdiv(lines, LINES),)](
        k, v, slots, pool_keys, pool_values, lines,
        *k.stride(), *v.stride(), *pool_keys.stride()[:2], *pool_values.stride()[:2],
        HEADS=heads, D=size, BLOCK_D=padded(size), LINES=LINES, num_warps=4, num_stages=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator]
def _gather_rows(  # type: ignore[no-untyped-def]
    x, index, out, rows, width, x_row,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    source = tl.load(index + row, mask=row < rows, other=0).to(tl.int64)
    inside = (row < rows)[:, None] & (lane < width)
    line = tl.load(x + source[:, None] * x_row + lane, mask=inside)
    tl.store(out + row.to(tl.int64)[:, None] * width + lane, line, mask=inside)


def gather_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """x[index] along the first dimension: the rows that stay where selection narrows.

    x [n, ...] of any dtype but bool and complex; index [r] int64 in 0..n-1. Returns [r, ...], contiguous.
    """
    out = x.new_empty((len(index), *x.shape[1:]))
    if not out.numel():
        return out
    lines = x.reshape(len(x), -1)  # a view unless the dimensions behind the first are strided
    if lines.stride(-1) != 1:
        lines = lines.contiguous()
    width = lines.shape[1]
    block = min(WIDTH, padded(width))
    rows = max(1, 2 * WIDTH // block)
    _gather_rows[(triton.cdiv(len(index), rows), triton.cdiv(width, block))](
        lines, index, out, len(index), width, lines.stride(0),
        ROWS=rows, BLOCK=block, num_warps=4, num_stages=1,
    )  # fmt: skip
    return out
