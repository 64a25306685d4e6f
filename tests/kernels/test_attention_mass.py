"""Attention mass in two passes against the torch reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.kernels.attention_mass import Reduce, attention_mass
from tests.kernels._interpreter import WHERE, faulty, kernels, unwritten_is_nan

MODULE = "triton_attention_mass"
REDUCE: list[Reduce] = ["mean", "max"]


@dataclass(frozen=True)
class Case:
    tokens: int
    context: int
    groups: int
    group: int
    size: int
    dtype: torch.dtype
    over_heads: Reduce = "mean"
    over_tokens: Reduce = "mean"
    cuts: tuple[int, ...] | None = None  # ends of segments, every third of which is left out
    seed: int = 0

    @property
    def segments(self) -> list[tuple[int, int]] | None:
        if self.cuts is None:
            return None
        ends = sorted({min(c, self.context) for c in self.cuts})
        return [s for i, s in enumerate(zip([0, *ends], ends, strict=False)) if i % 3 != 2]


CASES = st.builds(
    Case,
    tokens=st.integers(1, 40),
    context=st.integers(1, 200),
    groups=st.sampled_from([1, 2]),
    group=st.sampled_from([1, 3, 4, 8]),
    size=st.sampled_from([64, 80, 96, 128]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    over_heads=st.sampled_from(REDUCE),
    over_tokens=st.sampled_from(REDUCE),
    cuts=st.none() | st.lists(st.integers(1, 200), max_size=6).map(tuple),
    seed=st.integers(0, 999),
)


def run(module: ModuleType, case: Case, where: str) -> tuple[torch.Tensor, torch.Tensor]:
    """What the kernel returns, and the reference from the same tensors in fp32."""
    torch.manual_seed(case.seed)
    q = torch.randn(case.tokens, case.groups * case.group, case.size).to(case.dtype)
    context = torch.randn(case.groups, case.context, case.size).to(case.dtype).transpose(0, 1)
    own = torch.randn(case.tokens, case.groups, case.size).to(case.dtype)
    rest = (2 * case.size**-0.5, case.over_heads, case.over_tokens, case.segments)
    mass = module.attention_mass(q.to(where), context.to(where), own.to(where), *rest)
    assert mass.dtype == torch.float32
    return mass.cpu(), attention_mass(q.float(), context.float(), own.float(), *rest)


def check(module: ModuleType, case: Case, where: str = "cpu") -> None:
    mass, expected = run(module, case, where)
    # Products of bf16 and fp16 are exact in fp32, so no dtype needs more room.
    assert torch.allclose(mass, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("where", WHERE)
@settings(max_examples=60, deadline=None)
@given(case=CASES)
@example(case=Case(1, 1, 1, 1, 64, torch.bfloat16))
@example(case=Case(5, 3000, 1, 3, 80, torch.bfloat16, "max", "mean"))
@example(case=Case(70, 130, 1, 4, 128, torch.float32, "mean", "max"))
@example(case=Case(5, 2500, 1, 4, 64, torch.float16, "mean", "mean", (1000, 1001, 1100, 2500)))
def test_mass_is_that_of_the_reference(where: str, case: Case) -> None:
    check(kernels(MODULE, where), case, where)


@pytest.mark.parametrize("where", WHERE)
def test_the_same_input_gives_the_same_bits(where: str) -> None:
    case = Case(9, 1500, 2, 4, 64, torch.bfloat16)
    first, second = (run(kernels(MODULE, where), case, where)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_overlapping_segments_are_refused() -> None:
    q = torch.zeros(1, 1, 64)
    with pytest.raises(ValueError, match="overlap"):
        kernels(MODULE, "cpu").attention_mass(q, q.expand(9, 1, 64), q, 1.0, segments=[(4, 9), (0, 5)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key[None, :] <= token[:, None]", "key[None, :] <= token[:, None] + 1"),
        ("seen = (key < end)[None, :]", "seen = (key < end - 1)[None, :]"),
        ("asked = token < tokens", "asked = token < tokens - 1"),
        ("tl.store(out + key, mass, mask=key < end)", "tl.store(out + key, mass, mask=key < end - 1)"),
        ("(group + 1) * group_size)", "(group + 1) * group_size - 1)"),
        ("min(i + PIECE, m)", "min(i + PIECE - 1, m)"),
    ],
)
def test_an_off_by_one_is_found(old: str, new: str, tmp_path: Path) -> None:
    module = faulty(MODULE, old, new, tmp_path)
    with unwritten_is_nan(), pytest.raises(AssertionError):
        check(module, Case(5, 1100, 1, 3, 80, torch.float32))
