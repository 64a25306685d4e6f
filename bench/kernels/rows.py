"""The recomputed rows' fresh keys and values, written over the stitched ones (QCFuse, section 3.5)."""

from __future__ import annotations

import torch


def scatter_rows(
    keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor,
    pool_keys: torch.Tensor, pool_values: torch.Tensor,
) -> None:  # fmt: skip
    """Write keys and values [R, Hkv, D] to slots [R] int64 of the pools [slots, Hkv, D]."""
    if keys.is_cuda:
        from bench.kernels import triton_rows as fast

        fast.scatter_rows(keys, values, slots, pool_keys, pool_values)
    else:
        pool_keys[slots], pool_values[slots] = keys, values


def gather_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows `index` [r] int64 of x [n, ...]."""
    if x.is_cuda:
        from bench.kernels import triton_rows as fast

        return fast.gather_rows(x, index)
    return x[index]
