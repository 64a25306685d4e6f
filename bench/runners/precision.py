"""Which dtype a model runs in: fp32 is the reference, bf16 where it is measured to be faster."""

from __future__ import annotations

import time

import torch


def faster_dtype(rows: int = 256, width: int = 1024, repeats: int = 5) -> tuple[str, dict[str, float]]:
    """ "bfloat16" on a GPU and where a matrix product of a model's size is at least 1.2 times faster.

    Returns the dtype and the best seconds of each; fp32 and bf16 are measured in turn.
    """
    if torch.cuda.is_available():
        return "bfloat16", {}
    best = {"float32": float("inf"), "bfloat16": float("inf")}
    tensors = {d: (torch.randn(rows, width).to(t), torch.randn(width, 4 * width).to(t)) for d, t in
               (("float32", torch.float32), ("bfloat16", torch.bfloat16))}  # fmt: skip
    for _ in range(repeats + 1):
        for dtype, (a, b) in tensors.items():
            began = time.perf_counter()
            a @ b
            best[dtype] = min(best[dtype], time.perf_counter() - began)
    return ("bfloat16" if best["bfloat16"] * 1.2 <= best["float32"] else "float32"), best
