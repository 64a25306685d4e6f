"""Attention mass of the context positions, without the matrix of all weights (QCFuse, eq. 10 and 18)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from bench.kernels.attention_mass import Reduce
from bench.kernels.triton_target import LOG2E, padded, precision, unit_stride

PIECE = 1024
"""Keys of an undivided context that one program of the first pass adds up."""


@triton.jit(do_not_specialize=["lanes"])  # type: ignore[untyped-decorator]
def _log_sum_exp(  # type: ignore[no-untyped-def]
    q, keys, bounds, out, scale_log2, lanes, q_token, q_head, key_row, key_head,
    CAUSAL: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """First pass: log2 of the sum of 2^score over a piece's keys, for a tile of lanes (token, head)."""
    lane = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    group, piece = tl.program_id(1), tl.program_id(2)
    inside = lane < lanes
    lane = tl.minimum(lane, lanes - 1)
    token, head = lane // G, group * G + lane % G
    d = tl.arange(0, BLOCK_D)[None, :]
    queries = tl.load(q + (token * q_token + head * q_head)[:, None] + d, mask=d < D, other=0.0)
    begin, end = tl.load(bounds + 2 * piece), tl.load(bounds + 2 * piece + 1)
    keys += group * key_head
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    weight = tl.zeros([BLOCK_M], tl.float32)
    for start in range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        from_key = keys + key.to(tl.int64)[:, None] * key_row + d
        k = tl.load(from_key, mask=(key < end)[:, None] & (d < D), other=0.0)
        score = tl.dot(queries, tl.trans(k), input_precision=PRECISION) * scale_log2
        seen = (key < end)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= token[:, None])
        score = tl.where(seen, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))  # finite: every lane sees a piece's first key
        weight = weight * tl.exp2(top - higher) + tl.sum(tl.exp2(score - higher[:, None]), 1)
        top = higher
    tokens = lanes // G
    to = out + (piece * tl.num_programs(1) * G + head) * tokens + token
    tl.store(to, top + tl.log2(weight), mask=inside)


@triton.jit(do_not_specialize=["tokens", "heads", "group_size"])  # type: ignore[untyped-decorator]
def _mass(  # type: ignore[no-untyped-def]
    q, keys, bounds, log_sums, out, scale_log2, tokens, heads, group_size, q_token, q_head, key_row, key_head,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
    MAX_HEADS: tl.constexpr, MAX_TOKENS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Second pass: the reduced weights of one block of a segment's keys, all heads and tokens in turn."""
    segment = tl.program_id(1)
    begin, end = tl.load(bounds + 2 * segment), tl.load(bounds + 2 * segment + 1)
    key = begin + tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)[None, :]
    from_key = keys + key.to(tl.int64)[:, None] * key_row + d
    there = (key < end)[:, None] & (d < D)
    mass = tl.zeros([BLOCK_N], tl.float32)
    # The grid is as wide as the longest segment: a shorter one has blocks without keys.
    for start in range(0, tl.where(begin + tl.program_id(0) * BLOCK_N < end, tokens, 0), BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        asked = token < tokens
        by_token = tl.zeros([BLOCK_T, BLOCK_N], tl.float32)
        for group in range(0, heads // group_size):
            k = tl.load(from_key + group * key_head, mask=there, other=0.0)
            for head in range(group * group_size, (group + 1) * group_size):
                from_query = q + (token * q_token + head * q_head)[:, None] + d
                queries = tl.load(from_query, mask=asked[:, None] & (d < D), other=0.0)
                # +inf sends the weights of lanes behind the last token to 0.
                log_sum = tl.load(
                    log_sums + (segment * heads + head) * tokens + token, mask=asked, other=float("inf")
                )
                score = tl.dot(queries, tl.trans(k), input_precision=PRECISION) * scale_log2
                p = tl.exp2(score - log_sum[:, None])
                by_token = tl.maximum(by_token, p) if MAX_HEADS else by_token + p
        if MAX_TOKENS:
            mass = tl.maximum(mass, tl.max(by_token, 0))
        else:
            mass += tl.sum(by_token, 0)
    if not MAX_HEADS:
        mass = mass / heads
    if not MAX_TOKENS:
        mass = mass / tokens
    tl.store(out + key, mass, mask=key < end)


def attention_mass(
    q: torch.Tensor,
    context: torch.Tensor,
    own: torch.Tensor,
    scale: float,
    heads: Reduce = "mean",
    tokens: Reduce = "mean",
    segments: list[tuple[int, int]] | None = None,
) -> torch.Tensor:
    """Softmax mass on every context key, reduced over heads and query tokens (QCFuse, eq. 10 and 18).

    As `bench.kernels.attention_mass`: q [T, Hq, D], context [M, Hkv, D], own [T, Hkv, D], after RoPE, all
    of one dtype, bf16, fp16 or fp32. The softmax runs over all context keys and, causally, the query
    tokens' own, or with `segments` (begin, end), which may not overlap, over each segment's keys alone and
    is 0 outside. Head sizes up to 128.

    Two passes, as no weight is known before its row's sum: the first leaves one log-sum-exp per
    (head, token) and piece of the context (online softmax, FlashAttention-2; Dao, 2023), the second
    recomputes the scores block by block and reduces them where they are. The matrix [Hq * T, M] is never
    stored, and sums are added in a fixed order: same input, same bits. Returns [M] fp32.
    """
    q, context, own = unit_stride(q), unit_stride(context), unit_stride(own)
    t, hq, size = q.shape
    m, groups = context.shape[:2]
    if size > 128:
        raise ValueError(f"head sizes up to 128, not {size}")
    mass = torch.zeros(m, dtype=torch.float32, device=q.device)
    ranges = [(0, m)] if segments is None else sorted(s for s in segments if s[0] < s[1])
    if any(a[1] > b[0] for a, b in pairwise(ranges)):
        raise ValueError("segments overlap")
    if not ranges or not m:
        return mass
    pieces = ranges if segments is not None else [(i, min(i + PIECE, m)) for i in range(0, m, PIECE)]
    # Without tensor cores (fp32) every operand lies in registers: small tiles, or they spill.
    rows, together, warps = (16, 32, 8) if q.dtype == torch.float32 else (64, 64, 4)
    common: dict[str, Any] = {"D": size, "BLOCK_D": padded(size), "BLOCK_N": together}
    common |= {"PRECISION": precision(q.dtype), "num_warps": warps, "num_stages": 2}
    group = hq // groups
    lanes = t * group

    def log_sums(keys: torch.Tensor, bounds: list[tuple[int, int]], causal: bool) -> torch.Tensor:
        out = torch.empty(len(bounds), hq, t, dtype=torch.float32, device=q.device)
        _log_sum_exp[(triton.cdiv(lanes, rows), groups, len(bounds))](
            q, keys, torch.tensor(bounds, dtype=torch.int32, device=q.device), out, scale * LOG2E, lanes,
            *q.stride()[:2], *keys.stride()[:2], CAUSAL=causal, G=group, BLOCK_M=rows, **common,
        )  # fmt: skip
        return out

    sums = log_sums(context, pieces, False)
    if segments is None:
        sums = torch.cat((sums, log_sums(own, [(0, t)], True)))
        sums = ((sums / LOG2E).logsumexp(0, keepdim=True)) * LOG2E
    longest = max(end - begin for begin, end in ranges)
    _mass[(triton.cdiv(longest, together), len(ranges))](
        q, context, torch.tensor(ranges, dtype=torch.int32, device=q.device), sums, mass, scale * LOG2E,
        t, hq, group, *q.stride()[:2], *context.stride()[:2], BLOCK_T=rows,
        MAX_HEADS=heads == "max", MAX_TOKENS=tokens == "max", **common,
    )  # fmt: skip
    return mass
