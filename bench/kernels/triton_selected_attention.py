"""Attention of rows at arbitrary positions straight from the pool, through its slots (QCFuse, eq. 7)."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from bench.kernels.triton_target import LOG2E, capability, padded, precision, unit_stride

BLOCK_N = 64
"""Keys that are visited together, and that one entry of `blocks` stands for."""


@triton.jit  # type: ignore[untyped-decorator]
def _over_keys(  # type: ignore[no-untyped-def]
    total, weight, top, queries, position, keys, values, at, listed, last, begin, end,
    scale_log2, key_slot, value_slot,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, SKIPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Online softmax over the visited blocks begin..end-1; MASKED: rows may not see all of a block."""
    d = tl.arange(0, BLOCK_D)[None, :]
    for visit in range(begin, end):
        block = tl.load(listed + visit) if SKIPS else visit
        key = block * BLOCK_N + tl.arange(0, BLOCK_N)
        if MASKED:
            slot = tl.load(at + key, mask=key <= last, other=0).to(tl.int64)
            there = (key <= last)[:, None] & (d < D)
        else:
            slot = tl.load(at + key).to(tl.int64)
            there = d < D
        from_key, from_value = keys + slot[:, None] * key_slot + d, values + slot[:, None] * value_slot + d
        k = tl.load(from_key, mask=there, other=0.0) if MASKED or D < BLOCK_D else tl.load(from_key)
        score = tl.dot(queries, tl.trans(k), input_precision=PRECISION) * scale_log2
        if MASKED:
            score = tl.where(key[None, :] <= position[:, None], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        # A row that has seen no key yet stays at -inf, and -inf - -inf would be NaN.
        anchor = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
        p = tl.exp2(score - anchor[:, None])
        shrink = tl.exp2(top - anchor)
        weight = weight * shrink + tl.sum(p, 1)
        v = tl.load(from_value, mask=there, other=0.0) if MASKED or D < BLOCK_D else tl.load(from_value)
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None], input_precision=PRECISION)
        top = higher
    return total, weight, top


@triton.jit(do_not_specialize=["lanes"])  # type: ignore[untyped-decorator]
def _selected_attention(  # type: ignore[no-untyped-def]
    q, keys, values, at, positions, out, listed, before, scale_log2, lanes,
    q_row, q_head, key_slot, key_head, value_slot, value_head, out_row, out_head,
    G: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    SKIPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # The last rows see most keys: they start first, so that no long tile is left at the end.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    group = tl.program_id(1)
    lane = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = lane < lanes
    lane = tl.minimum(lane, lanes - 1)  # lanes behind the end repeat the last one and are not stored
    row, head = (lane // G).to(tl.int64), group * G + lane % G
    d = tl.arange(0, BLOCK_D)[None, :]
    queries = tl.load(q + (row * q_row + head * q_head)[:, None] + d, mask=d < D, other=0.0)
    position = tl.load(positions + row).to(tl.int32)
    first = tl.load(positions + tile * BLOCK_M // G).to(tl.int32)
    last = tl.load(positions + (tl.minimum((tile + 1) * BLOCK_M, lanes) - 1) // G).to(tl.int32)
    whole, end = (first + 1) // BLOCK_N, last // BLOCK_N + 1  # every row sees all of blocks 0..whole-1
    if SKIPS:
        whole, end = tl.load(before + whole), tl.load(before + end)
    keys += group * key_head
    values += group * value_head
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    weight = tl.zeros([BLOCK_M], tl.float32)
    total = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total, weight, top = _over_keys(
        total, weight, top, queries, position, keys, values, at, listed, last, 0, whole,
        scale_log2, key_slot, value_slot, D, BLOCK_D, BLOCK_N, False, SKIPS, PRECISION,
    )  # fmt: skip
    total, weight, top = _over_keys(
        total, weight, top, queries, position, keys, values, at, listed, last, whole, end,
        scale_log2, key_slot, value_slot, D, BLOCK_D, BLOCK_N, True, SKIPS, PRECISION,
    )  # fmt: skip
    total = total / tl.where(weight == 0.0, 1.0, weight)[:, None]
    tl.store(out + (row * out_row + head * out_head)[:, None] + d, total, mask=inside[:, None] & (d < D))


def plan(capability: int, dtype: torch.dtype, lanes: int, groups: int) -> dict[str, int]:
    """Tile, warps and stages that spill no register for any head size up to 128 (tests/kernels)."""
    if dtype == torch.float32:  # no tensor cores: every operand lies in registers
        return {"BLOCK_M": 16, "num_warps": 8, "num_stages": 2}
    few = triton.cdiv(lanes, 128) * groups < 128  # tiles than a large GPU has multiprocessors
    if 90 <= capability < 120:  # operands in shared or tensor memory leave registers for a third stage
        if few:  # no reason to spill, as the assembler would, to fit more blocks of threads
            return {"BLOCK_M": 64, "num_warps": 4, "num_stages": 3, "maxnreg": 255}
        return {"BLOCK_M": 128, "num_warps": 8, "num_stages": 3}
    return {"BLOCK_M": 64 if few else 128, "num_warps": 8, "num_stages": 2}


def selected_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    at: torch.Tensor,
    positions: torch.Tensor,
    scale: float,
    blocks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax attention of selected rows over the partially fused prefix (QCFuse, section 3.5, eq. 7).

    q [R, Hq, D]; keys and values [slots, Hkv, D], the pool; at [n] int64, the slot of each request
    position; positions [R] int64, the rows' request positions, sorted. bf16, fp16 or fp32. The row at
    position p sees positions 0..p, whatever rows are selected. Keys are read through `at` where they
    lie: nothing is gathered first and the page size does not matter.

    `blocks`, bool [ceil(n / BLOCK_N)], leaves out the blocks of BLOCK_N keys that are False; a row that
    is left with no key at all returns 0. Keys and values are of one head size, at most 128.

    Online softmax as in FlashAttention-2 (Dao, 2023): fp32 sums, blocks that all rows of a tile see
    without a mask, blocks behind the tile's last position not visited. The G query heads of a group are
    lanes of the same tile as their rows (M = rows x G), so keys are read once for all of them.
    Returns [R, Hq, D] in q's dtype.
    """
    q, keys, values = unit_stride(q), unit_stride(keys), unit_stride(values)
    rows, heads, size = q.shape
    groups = keys.shape[1]
    if size > 128 or values.shape[-1] != size:
        raise ValueError(f"keys and values of one head size, at most 128; not {size} and {values.shape[-1]}")
    out = q.new_empty(q.shape)
    if not rows:
        return out
    listed = before = at  # not read
    if blocks is not None:
        # Visible blocks in order, and how many lie before each: a loop over them needs no branch.
        listed = blocks.logical_not().to(torch.int8).argsort(stable=True)
        before = torch.nn.functional.pad(blocks.cumsum(0), (1, 0)).to(torch.int32)
        listed = listed.to(torch.int32)
    lanes = rows * (heads // groups)
    chosen = plan(capability(q.device), q.dtype, lanes, groups)
    _selected_attention[(triton.cdiv(lanes, chosen["BLOCK_M"]), groups)](
        q, keys, values, at, positions, out, listed, before, scale * LOG2E, lanes,
        *q.stride()[:2], *keys.stride()[:2], *values.stride()[:2], *out.stride()[:2],
        G=heads // groups, D=size, BLOCK_D=padded(size), BLOCK_N=BLOCK_N, SKIPS=blocks is not None,
        PRECISION=precision(q.dtype), **chosen,
    )  # fmt: skip
    return out
