"""Rotating and scattering in one kernel against the angle-by-angle rotation in fp64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.kernels.rotate import rotate
from tests.kernels._interpreter import WHERE, faulty, kernels, unwritten_is_nan

MODULE = "triton_rotate_scatter"


@dataclass(frozen=True)
class Case:
    n: int
    heads: int
    size: int
    rotary: int
    neox: bool
    dtype: torch.dtype
    layers: int = 0  # 0: tensors without a layer dimension
    strided: bool = False
    listed: bool = False  # the pool as a sequence of layers
    seed: int = 0


CASES = st.builds(
    Case,
    n=st.integers(1, 70),
    heads=st.integers(1, 4),
    size=st.sampled_from([64, 80, 96, 128]),
    rotary=st.sampled_from([16, 32, 60, 64]),
    neox=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    layers=st.integers(0, 3),
    strided=st.booleans(),
    listed=st.booleans(),
    seed=st.integers(0, 999),
)


def check(module: ModuleType, case: Case, where: str = "cpu") -> None:
    torch.manual_seed(case.seed)
    layers, total = max(1, case.layers), case.n + 9
    shape = (layers, case.n, case.heads, case.size)
    wide = torch.randn(2, layers, case.heads, case.n, 2 * case.size).to(case.dtype)
    if case.strided:  # heads before tokens, every second lane
        keys, values = wide.transpose(2, 3)[..., ::2]
    else:
        keys, values = wide[..., : case.size].reshape(2, *shape)
    angles = torch.arange(200)[:, None] / 100 ** torch.linspace(0, 1, case.rotary // 2)
    table = torch.cat((angles.cos(), angles.sin()), -1)
    positions, slots = torch.randint(0, 199, (case.n,)), torch.randperm(total)[: case.n]
    pools = torch.full((2, layers, total, case.heads, case.size), 7.0).to(where, case.dtype)
    to_keys, to_values = pools if case.layers else pools[:, 0]
    if not case.layers:
        keys, values = keys[0], values[0]
    elif case.listed:
        to_keys, to_values = list(to_keys), list(to_values)
    tensors = (x.to(where) for x in (keys, values, positions, slots, table))
    module.rotate_scatter(*tensors, case.neox, to_keys, to_values)

    exact = rotate(
        keys.double().reshape(-1, case.heads, case.size), positions.repeat(layers), table, case.neox
    )
    written, copied = pools.cpu()[:, :, slots]
    error = (written.double() - exact.view(shape)).abs()
    # One rounding to the dtype is at most half of its last place; the rest is for fp32 sums.
    half = torch.finfo(case.dtype).eps / 2
    assert bool((error <= half * exact.view(shape).abs() + 1e-6).all())
    assert torch.equal(copied, values.reshape(shape))
    others = torch.ones(total, dtype=torch.bool).index_fill(0, slots, False)
    assert bool((pools.cpu()[:, :, others] == 7).all())


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=50, deadline=None)
@given(case=CASES)
@example(case=Case(3000, 2, 128, 128, True, torch.bfloat16))
@example(case=Case(1, 1, 80, 80, False, torch.float16, layers=2, listed=True))
def test_keys_are_rotated_rounded_once_and_written_with_the_values(where: str, case: Case) -> None:
    check(kernels(MODULE, where), case, where)


@pytest.mark.parametrize(
    ("neox", "old", "new"),
    [
        (
            True,
            "position.to(tl.int64)[:, None] * table_row",
            "(position.to(tl.int64) + 1)[:, None] * table_row",
        ),
        (True, "a = tl.load(from_key + pair * key_lane", "a = tl.load(from_key + (pair + 1) * key_lane"),
        (True, "(rest < D)", "(rest < D - 1)"),
        (True, "(lane < D)", "(lane < D - 1)"),
        (
            True,
            "slot = tl.load(slots + token, mask=line < lines",
            "slot = tl.load(slots + token, mask=line < lines - 1",
        ),
        (False, "(lane < ROTARY)", "(lane < ROTARY - 1)"),
    ],
)
def test_an_off_by_one_is_found(neox: bool, old: str, new: str, tmp_path: Path) -> None:
    module = faulty(MODULE, old, new, tmp_path)
    with unwritten_is_nan(), pytest.raises(AssertionError):
        check(module, Case(33, 1, 80, 32, neox, torch.float32))
