"""Cached keys and values into the pool in one pass: rotate, round once, scatter (QCFuse, eq. 4 and 7)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from bench.kernels.triton_target import padded

LINES = 32
"""Lines, one (token, head) each, that a program moves."""


@triton.jit(do_not_specialize=["lines"])  # type: ignore[untyped-decorator]
def _rotate_scatter(  # type: ignore[no-untyped-def]
    keys, values, positions, slots, table, pool_keys, pool_values, lines,
    key_layer, key_token, key_head, key_lane, value_layer, value_token, value_head, value_lane, table_row,
    to_key_layer, to_key_slot, to_key_head, to_value_layer, to_value_slot, to_value_head,
    HEADS: tl.constexpr, D: tl.constexpr, ROTARY: tl.constexpr, NEOX: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_HALF: tl.constexpr, BLOCK_REST: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)
    layer = tl.program_id(1).to(tl.int64)  # 64 bits: layers times tokens times lanes may not fit in 31
    inside = (line < lines)[:, None]
    token, head = line // HEADS, line % HEADS
    position = tl.load(positions + token, mask=line < lines, other=0)
    slot = tl.load(slots + token, mask=line < lines, other=0).to(tl.int64)
    token = token.to(tl.int64)
    from_key = (keys + layer * key_layer + token * key_token + head * key_head)[:, None]
    to_key = (pool_keys + layer * to_key_layer + slot * to_key_slot + head * to_key_head)[:, None]

    half = ROTARY // 2
    pair = tl.arange(0, BLOCK_HALF)[None, :]
    angle = table + position.to(tl.int64)[:, None] * table_row + pair
    within = inside & (pair < half)
    cos = tl.load(angle, mask=within, other=0.0)
    sin = tl.load(angle + half, mask=within, other=0.0)
    if NEOX:
        a = tl.load(from_key + pair * key_lane, mask=within, other=0.0).to(tl.float32)
        b = tl.load(from_key + (pair + half) * key_lane, mask=within, other=0.0).to(tl.float32)
        tl.store(to_key + pair, a * cos - b * sin, mask=within)
        tl.store(to_key + pair + half, b * cos + a * sin, mask=within)
    else:  # pairs of neighbours: moved as whole lines, so that accesses stay contiguous
        lane = tl.arange(0, 2 * BLOCK_HALF)[None, :]
        turned = inside & (lane < ROTARY)
        both = tl.load(from_key + lane * key_lane, mask=turned, other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (LINES, BLOCK_HALF, 2)))
        both = tl.join(a * cos - b * sin, b * cos + a * sin)
        tl.store(to_key + lane, tl.reshape(both, (LINES, 2 * BLOCK_HALF)), mask=turned)
    if ROTARY < D:
        rest = ROTARY + tl.arange(0, BLOCK_REST)[None, :]
        kept = inside & (rest < D)
        tl.store(to_key + rest, tl.load(from_key + rest * key_lane, mask=kept), mask=kept)

    lane = tl.arange(0, BLOCK_D)[None, :]
    copied = inside & (lane < D)
    from_value = (values + layer * value_layer + token * value_token + head * value_head)[:, None]
    to_value = (pool_values + layer * to_value_layer + slot * to_value_slot + head * to_value_head)[:, None]
    tl.store(to_value + lane, tl.load(from_value + lane * value_lane, mask=copied), mask=copied)


def rotate_scatter(
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    table: torch.Tensor,
    neox: bool,
    pool_keys: torch.Tensor | Sequence[torch.Tensor],
    pool_values: torch.Tensor | Sequence[torch.Tensor],
) -> None:
    """Rotate keys from before RoPE to their request positions and write them and the values to the pool.

    The position remapping and stitching of QCFuse (eq. 4 and 7), without a rotated copy in between.
    One layer: keys and values [n, Hkv, D], the pool's tensors [slots, Hkv, D]. All layers: [L, n, Hkv, D]
    and either one pool tensor [L, slots, Hkv, D] (one launch) or a sequence of L tensors
    [slots, Hkv, D], as SGLang's pool keeps them (one launch a layer). positions and slots [n] int64,
    slots distinct; table [P, rotary_dim] fp32, cos, then sin, rotary_dim even and at most D. keys and
    values, bf16, fp16 or fp32, may be strided views. The rotation is fp32, as SGLang rotates fresh keys on
    a GPU, and is rounded once, to the pool's dtype.
    """
    if not isinstance(pool_keys, torch.Tensor):
        for layer, (to_keys, to_values) in enumerate(zip(pool_keys, pool_values, strict=True)):
            rotate_scatter(
                keys[layer], values[layer], positions, slots, table, neox, to_keys, to_values
            )  # fmt: skip
        return
    assert isinstance(pool_values, torch.Tensor)
    if keys.dim() == 3:
        keys, values, pool_keys, pool_values = (x[None] for x in (keys, values, pool_keys, pool_values))
    layers, n, heads, size = keys.shape
    rotary = table.shape[-1]
    if table.stride(-1) != 1 or pool_keys.stride(-1) != 1 or pool_values.stride(-1) != 1:
        raise ValueError("the lanes of the table and of the pool have to be contiguous")
    if not layers * n:
        return
    lines = n * heads
    _rotate_scatter[(triton.cdiv(lines, LINES), layers)](
        keys, values, positions, slots, table, pool_keys, pool_values, lines,
        *keys.stride(), *values.stride(), table.stride(0), *pool_keys.stride()[:3], *pool_values.stride()[:3],
        HEADS=heads, D=size, ROTARY=rotary, NEOX=neox, BLOCK_D=padded(size), BLOCK_HALF=padded(rotary // 2),
        BLOCK_REST=padded(max(1, size - rotary)), LINES=LINES,
        num_warps=4, num_stages=1,
    )  # fmt: skip
