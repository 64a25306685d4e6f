"""Attention straight from the pool against the torch reference, and what it must not look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.kernels.selected_attention import Rows, attend_rows
from tests.kernels._interpreter import WHERE, faulty, kernels, unwritten_is_nan

MODULE = "triton_selected_attention"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
N = 64  # BLOCK_N


@dataclass(frozen=True)
class Case:
    n: int
    rows: int
    groups: int
    group: int
    size: int
    page: int
    dtype: torch.dtype
    seed: int = 0
    begin: int = 0  # no row before this position


CASES = st.builds(
    Case,
    n=st.integers(1, 300),
    rows=st.integers(1, 40),
    groups=st.sampled_from([1, 2]),
    group=st.sampled_from([1, 3, 4, 8]),
    size=st.sampled_from([64, 80, 96, 128]),
    page=st.sampled_from([1, 16]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 999),
)


class Inputs:
    """A pool whose pages are shuffled; slots that no position lies in hold NaN."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(case.seed)
        pages = -(-case.n // case.page) + 3
        starts = torch.randperm(pages)[:, None] * case.page
        self.at = (starts + torch.arange(case.page)).flatten()[: case.n]
        shape = (pages * case.page, case.groups, case.size)
        self.keys, self.values = torch.full((2, *shape), float("nan"), dtype=case.dtype)
        self.keys[self.at] = torch.randn(case.n, *shape[1:]).to(case.dtype)
        self.values[self.at] = torch.randn(case.n, *shape[1:]).to(case.dtype)
        drawn = torch.randperm(case.n)[: case.rows].sort().values
        self.positions = drawn[drawn >= case.begin]
        self.q = torch.randn(len(self.positions), case.groups * case.group, case.size).to(case.dtype)
        self.scale = case.size**-0.5

    def run(self, module: ModuleType, where: str, blocks: torch.Tensor | None = None) -> torch.Tensor:
        tensors = (self.q, self.keys, self.values, self.at, self.positions)
        blocks = None if blocks is None else blocks.to(where)
        out = module.selected_attention(*(x.to(where) for x in tensors), self.scale, blocks)
        assert out.dtype == self.q.dtype
        return out.cpu().float()

    def expected(self) -> torch.Tensor:
        q, k, v = self.q.float(), self.keys[self.at].float(), self.values[self.at].float()
        return attend_rows(q, k, v, Rows(self.positions), self.scale)

    def without(self, blocks: torch.Tensor) -> torch.Tensor:
        """Plain softmax over the keys of visible blocks, 0 where there are none."""
        n, heads = len(self.at), self.q.shape[1]
        k, v = (
            x[self.at].float().repeat_interleave(heads // x.shape[1], 1) for x in (self.keys, self.values)
        )
        seen = (torch.arange(n) <= self.positions[:, None]) & blocks.repeat_interleave(N)[:n]
        scores = torch.einsum("rhd,khd->hrk", self.q.float(), k) * self.scale
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1).nan_to_num(0.0)
        return torch.einsum("hrk,khd->rhd", weights, v)


def close(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    """Weights and result are rounded to the dtype; values are below 6."""
    return torch.allclose(out, expected, rtol=0, atol=6 * torch.finfo(dtype).eps + 1e-5)


def check(module: ModuleType, case: Case, where: str = "cpu") -> None:
    inputs = Inputs(case)
    assert close(inputs.run(module, where), inputs.expected(), case.dtype)


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=50, deadline=None)
@given(case=CASES)
@example(case=Case(1, 1, 1, 1, 64, 1, torch.bfloat16))
@example(case=Case(3000, 9, 1, 4, 128, 16, torch.bfloat16))
@example(case=Case(2999, 150, 1, 3, 80, 1, torch.float32))
@example(case=Case(257, 257, 2, 8, 96, 16, torch.float16))
def test_rows_see_their_own_position_and_what_is_before(where: str, case: Case) -> None:
    check(kernels(MODULE, where), case, where)


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=20, deadline=None)
@given(case=CASES, data=st.data())
def test_blocks_left_out_are_not_seen(where: str, case: Case, data: st.DataObject) -> None:
    count = -(-case.n // N)
    blocks = torch.tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    inputs = Inputs(case)
    out = inputs.run(kernels(MODULE, where), where, blocks)
    assert close(out, inputs.without(blocks), case.dtype)


@pytest.mark.parametrize("where", WHERE)
def test_a_row_without_visible_blocks_is_zero(where: str) -> None:
    inputs = Inputs(Case(200, 200, 1, 3, 64, 1, torch.float32))
    out = inputs.run(kernels(MODULE, where), where, torch.tensor([False, False, True, True]))
    assert bool((out[: 2 * N] == 0).all())
    assert bool((out[2 * N :] != 0).any(-1).all())


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("last", [0, 63, 64, 100])
def test_positions_behind_the_last_row_are_not_looked_at(where: str, last: int) -> None:
    """Their slots are NaN: one look would spoil the sums."""
    inputs = Inputs(Case(300, 300, 1, 4, 64, 1, torch.float32))
    inputs.positions, inputs.q = inputs.positions[: last + 1], inputs.q[: last + 1]
    expected = inputs.expected()
    inputs.keys[inputs.at[last + 1 :]] = inputs.values[inputs.at[last + 1 :]] = float("nan")
    assert close(inputs.run(kernels(MODULE, where), where), expected, torch.float32)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key[None, :] <= position[:, None]", "key[None, :] < position[:, None]"),
        ("key[None, :] <= position[:, None]", "key[None, :] <= position[:, None] + 1"),
        ("(first + 1) // BLOCK_N", "(first + 2) // BLOCK_N"),
        ("last // BLOCK_N + 1", "last // BLOCK_N"),
        ("tl.minimum(lane, lanes - 1)", "tl.minimum(lane, lanes - 2)"),
        ("(d < D)\n        else", "(d < D - 1)\n        else"),
    ],
)
def test_an_off_by_one_is_found(old: str, new: str, tmp_path: Path) -> None:
    module = faulty(MODULE, old, new, tmp_path)
    with unwritten_is_nan(), pytest.raises(AssertionError):
        # The first row sees all keys of the first block but one.
        check(module, Case(190, 190, 1, 3, 80, 1, torch.float32, begin=N - 2))
