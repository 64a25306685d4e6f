"""Stitching: cached pieces rotated to their positions and put into their slots (QCFuse, eq. 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.kernels.place import Place
from bench.kernels.rotate import rotate
from bench.kv import KV


def stitch(
    pieces: Sequence[KV], place: Place, table: torch.Tensor, neox: bool,
    pool_keys: torch.Tensor, pool_values: torch.Tensor,
) -> None:  # fmt: skip
    """Put one layer of consecutive pieces, beginning at request position 0, into the pools [slots, Hkv, D].

    Keys come as before RoPE and are rotated once (`bench.kernels.rotate`); values are put as they are.
    """
    n = sum(len(kv.keys) for kv in pieces)
    if not n:
        return
    if pool_keys.is_cuda:
        from bench.kernels.triton_rotate_scatter import rotate_scatter

        begin = 0
        for kv in pieces:
            end = begin + len(kv.keys)
            positions, slots = place.positions[begin:end], place.at[begin:end]
            rotate_scatter(kv.keys, kv.values, positions, slots, table, neox, pool_keys, pool_values)
            begin = end
    elif place.run is None:
        keys = torch.cat([kv.keys for kv in pieces])
        pool_keys[place.at[:n]] = rotate(keys, place.positions[:n], table, neox)
        pool_values[place.at[:n]] = torch.cat([kv.values for kv in pieces])
    else:  # into the slots themselves, and rotated there
        run = slice(place.run.start, place.run.start + n)
        torch.cat([kv.keys for kv in pieces], out=pool_keys[run])
        torch.cat([kv.values for kv in pieces], out=pool_values[run])
        _turn(pool_keys[run], table[:n], neox)


def _turn(keys: torch.Tensor, table: torch.Tensor, neox: bool) -> None:
    """Rotate keys [n, H, D] in place by the table's rows [n, rotary_dim]."""
    half = table.shape[-1] // 2
    cos, sin = table.to(keys.dtype).unsqueeze(-2).chunk(2, -1)
    first, second = (
        (slice(half), slice(half, 2 * half)) if neox else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    )
    a, b = keys[..., first], keys[..., second]
    before = a.clone()
    a.mul_(cos).addcmul_(b, sin, value=-1)
    b.mul_(cos).addcmul_(before, sin)
