"""Rows by index against torch's own indexing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernels._interpreter import WHERE, faulty, kernels, unwritten_is_nan

MODULE = "triton_rows"
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


def check_scatter(
    module: ModuleType, rows: int, heads: int, size: int, dtype: torch.dtype, where: str
) -> None:
    k, v = torch.randn(2, heads, rows, size).to(dtype).transpose(1, 2)
    slots = torch.randperm(rows + 5)[:rows]
    expected = torch.full((2, rows + 5, heads, size), 7.0, dtype=dtype)
    pools = expected.clone().to(where)
    expected[0, slots], expected[1, slots] = k, v
    module.scatter_rows(*(x.to(where) for x in (k, v, slots)), *pools)
    assert torch.equal(pools.cpu(), expected)


def check_gather(module: ModuleType, n: int, shape: list[int], count: int, where: str, strided: bool) -> None:
    x = torch.randint(-99, 99, (n, *shape)).to(torch.bfloat16)
    x = x.movedim(0, -1).contiguous().movedim(-1, 0) if strided else x
    index = torch.randint(0, n, (count,))
    out = module.gather_rows(x.to(where), index.to(where))
    assert torch.equal(out.cpu(), x[index])


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 70), heads=st.integers(1, 5), size=st.sampled_from([64, 80, 96, 128]), dtype=DTYPES
)
@example(rows=2999, heads=2, size=80, dtype=torch.bfloat16)
@example(rows=0, heads=2, size=80, dtype=torch.bfloat16)
def test_fresh_rows_are_written_to_their_slots(
    where: str, rows: int, heads: int, size: int, dtype: torch.dtype
) -> None:
    check_scatter(kernels(MODULE, where), rows, heads, size, dtype, where)


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 50), shape=st.lists(st.integers(1, 40), max_size=2), count=st.integers(0, 60),
    strided=st.booleans(),
)  # fmt: skip
@example(n=3000, shape=[2050], count=257, strided=False)
def test_gathered_rows_are_those_of_the_index(
    where: str, n: int, shape: list[int], count: int, strided: bool
) -> None:
    check_gather(kernels(MODULE, where), n, shape, count, where, strided)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(line < lines)[:, None] & (lane < D)", "(line < lines - 1)[:, None] & (lane < D)"),
        ("slot = tl.load(slots + row", "slot = tl.load(slots + row // 2"),
    ],
)
def test_an_off_by_one_of_the_scatter_is_found(old: str, new: str, tmp_path: Path) -> None:
    module = faulty(MODULE, old, new, tmp_path)
    with unwritten_is_nan(), pytest.raises(AssertionError):
        check_scatter(module, 13, 3, 80, torch.float32, "cpu")


def test_an_off_by_one_of_the_gather_is_found(tmp_path: Path) -> None:
    module = faulty(MODULE, "& (lane < width)", "& (lane < width - 1)", tmp_path)
    with unwritten_is_nan(), pytest.raises(AssertionError):
        check_gather(module, 9, [33], 14, "cpu", False)
