"""Every kernel compiles for cc 80, 90 and 100 as it is launched, spills no register and fits.

A part of all combinations by default; QCBENCH_ALL_KERNELS=1 asks for all of them, and for cc 89 and 120.
"""

from __future__ import annotations

import os
from itertools import product

import pytest
import torch

from bench.kernels import triton_attention_mass, triton_rotate_scatter, triton_rows, triton_selected_attention
from bench.kernels.attention_mass import Reduce
from tests.kernels._ahead import SHARED, Launch, compiled, recording

ALL = os.environ.get("QCBENCH_ALL_KERNELS") == "1"
CAPABILITIES = [80, 89, 90, 100, 120] if ALL else [80, 90, 100]
SIZES = [64, 80, 96, 128]
GROUPS = {64: 8, 80: 1, 96: 4, 128: 3}
"""One group of query heads a head size, unless all are asked for."""
GRID = [(torch.bfloat16, s) for s in SIZES] + [(torch.float16, s) for s in (SIZES if ALL else [128])]
REDUCE: list[Reduce] = ["mean", "max"]


def meta(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def rotate(size: int, dtype: torch.dtype) -> None:
    kept, pool = meta(4, 900, 8, size, dtype=dtype), meta(4, 2000, 8, size, dtype=dtype)
    grid = product((True, False), (size, size // 2)) if ALL else [(True, size), (False, size // 2)]
    for neox, rotary in grid:
        table = meta(4096, rotary, dtype=torch.float32)
        triton_rotate_scatter.rotate_scatter(kept, kept, meta(900), meta(900), table, neox, pool, pool)


def move(size: int, dtype: torch.dtype) -> None:
    fresh, pool = meta(300, 8, size, dtype=dtype), meta(2000, 8, size, dtype=dtype)
    triton_rows.scatter_rows(fresh, fresh, meta(300), pool, pool)
    triton_rows.gather_rows(meta(300, 12 * size, dtype=dtype), meta(40))


def attend(size: int, dtype: torch.dtype, group: int) -> None:
    """Few rows and many, which take tiles of different sizes, with and without blocks left out."""
    pool, at, blocks = meta(9000, 8, size, dtype=dtype), meta(8000), meta(125, dtype=torch.bool)
    for rows, skipped in product((20, 2500), (None, blocks)):
        if ALL or (skipped is None and dtype == torch.bfloat16) or (rows > 20 and size == 128):
            q = meta(rows, 8 * group, size, dtype=dtype)
            triton_selected_attention.selected_attention(q, pool, pool, at, meta(rows), 0.1, skipped)


def weigh(size: int, dtype: torch.dtype, group: int) -> None:
    q, own = meta(30, 8 * group, size, dtype=dtype), meta(30, 8, size, dtype=dtype)
    for heads, tokens in product(REDUCE, REDUCE) if ALL else [(REDUCE[1], REDUCE[0])]:
        context = meta(3000, 8, size, dtype=dtype)
        triton_attention_mass.attention_mass(q, context, own, 0.1, heads, tokens)


def launches(capability: int, size: int, dtype: torch.dtype) -> list[Launch]:
    """Every launch of every kernel, each code once."""
    with pytest.MonkeyPatch.context() as patch, recording() as made:
        patch.setattr(triton_selected_attention, "capability", lambda device: capability)
        rotate(size, dtype)
        move(size, dtype)
        for group in (1, 3, 4, 8) if ALL else (GROUPS[size],):
            attend(size, dtype, group)
            weigh(size, dtype, group)
    return list({launch.key(capability): launch for launch in made}.values())


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("dtype", "size"), GRID, ids=str)
def test_no_register_is_spilled(capability: int, size: int, dtype: torch.dtype) -> None:
    found = launches(capability, size, dtype)
    names = {launch.kernel.__name__ for launch in found}
    assert names == {
        "_rotate_scatter", "_scatter_rows", "_gather_rows", "_selected_attention", "_log_sum_exp", "_mass"
    }  # fmt: skip
    for launch in found:
        needs = compiled(launch, capability)
        assert (needs.spills, needs.stack) == (0, 0), (launch.kernel.__name__, launch.kwargs, needs)
        assert needs.shared <= SHARED[capability] * 1024, (launch.kernel.__name__, launch.kwargs, needs)


def test_a_tile_that_is_too_large_is_reported() -> None:
    with recording() as made:
        attend(128, torch.bfloat16, 3)
    tight = Launch(made[0].kernel, made[0].args, {**made[0].kwargs, "BLOCK_M": 128, "num_warps": 4})
    assert compiled(tight, 80).spills > 0


def test_fp32_compiles() -> None:
    """Every product in full fp32; a small spill is let pass, as fp32 is for reference runs."""
    for launch in launches(90, 64, torch.float32):
        assert compiled(launch, 90).spills < 64
