"""Rotary position embedding of cached keys: the position remapping Pi (QCFuse, eq. 4)."""

from __future__ import annotations

import torch


def rotate(keys: torch.Tensor, positions: torch.Tensor, table: torch.Tensor, neox: bool) -> torch.Tensor:
    """Rotate keys from before RoPE to their request positions.

    keys [n, H, D], positions [n] int64, table [P, rotary_dim] (cos, then sin; the model's own, with
    its scaling). As SGLang rotates fresh keys, so that both agree: on a CPU in the keys' dtype
    (`sglang/srt/layers/rotary_embedding/utils.py`, apply_rotary_emb), on a GPU in the table's fp32
    (`sglang/kernels/ops/attention/rope.py`). Returns [n, H, D] in the keys' dtype.
    """
    if keys.is_cuda and keys.dtype != table.dtype:
        return rotate(keys.to(table.dtype), positions, table, neox).to(keys.dtype)
    width = table.shape[-1]
    cos, sin = table[positions].to(keys.dtype).unsqueeze(-2).chunk(2, -1)
    turned, rest = keys[..., :width], keys[..., width:]
    if neox:
        a, b = turned.chunk(2, -1)
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        a, b = turned[..., ::2], turned[..., 1::2]
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((out, rest), -1) if rest.shape[-1] else out
