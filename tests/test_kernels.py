"""Torch references of the kernels against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.kernels.attention_mass import attention_mass
from bench.kernels.decode_attention import decode_attention
from bench.kernels.place import Place
from bench.kernels.rotate import rotate
from bench.kernels.selected_attention import BLOCK, Rows, selected_attention
from bench.kernels.stitch import stitch
from bench.kv import KV


def plain(q: torch.Tensor, k: torch.Tensor, seen: list[int], scale: float) -> torch.Tensor:
    """Softmax weights of one query vector over some keys."""
    return (k[seen] @ q * scale).softmax(0)


@settings(max_examples=25, deadline=None)
@given(rows=st.sets(st.integers(0, 150), min_size=1), group=st.sampled_from([1, 3]), seed=st.integers(0, 99))
@example(rows=set(range(2 * BLOCK + 1)), group=1, seed=0)
def test_a_selected_row_sees_its_own_position_and_what_is_before(
    rows: set[int], group: int, seed: int
) -> None:
    torch.manual_seed(seed)
    positions = torch.tensor(sorted(rows))
    q, k, v = torch.randn(len(rows), 2 * group, 8), torch.randn(151, 2, 8), torch.randn(151, 2, 8)
    slots = (
        torch.randperm(151, generator=torch.Generator().manual_seed(seed))
        if group == 3
        else torch.arange(151)
    )
    pool_k, pool_v = torch.empty_like(k), torch.empty_like(v)
    pool_k[slots], pool_v[slots] = k, v
    out = selected_attention(q, pool_k, pool_v, Place(slots), Rows(positions), 0.3)
    for r, p in enumerate(positions.tolist()):
        for h in range(2 * group):
            weights = plain(q[r, h], k[:, h // group], list(range(p + 1)), 0.3)
            assert torch.allclose(out[r, h], weights @ v[: p + 1, h // group], atol=1e-5)


def test_decode_attention_reads_each_requests_own_length() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 6, 8), torch.randn(3, 10, 2, 8), torch.randn(3, 10, 2, 8)
    lengths = torch.tensor([10, 4, 1])
    out = decode_attention(q, k, v, lengths, 0.5)
    for b in range(3):
        n = int(lengths[b])
        for h in range(6):
            weights = plain(q[b, h], k[b, :, h // 3], list(range(n)), 0.5)
            assert torch.allclose(out[b, h], weights @ v[b, :n, h // 3], atol=1e-5)


@pytest.mark.parametrize("heads", ["mean", "max"])
@pytest.mark.parametrize("tokens", ["mean", "max"])
def test_attention_mass_is_the_softmax_over_context_and_own_earlier_keys(heads: str, tokens: str) -> None:
    torch.manual_seed(1)
    q, context, own = torch.randn(4, 6, 8), torch.randn(9, 2, 8), torch.randn(4, 2, 8)
    every = torch.zeros(6, 4, 9)
    for h in range(6):
        for t in range(4):
            keys = torch.cat((context[:, h // 3], own[: t + 1, h // 3]))
            every[h, t] = plain(q[t, h], keys, list(range(9 + t + 1)), 0.4)[:9]
    expected = every.amax(0) if heads == "max" else every.mean(0)
    expected = expected.amax(0) if tokens == "max" else expected.mean(0)
    mass = attention_mass(q, context, own, 0.4, heads, tokens)  # type: ignore[arg-type]
    assert torch.allclose(mass, expected, atol=1e-5)


def test_attention_mass_by_segment_sums_to_one_in_each() -> None:
    torch.manual_seed(2)
    q, context, own = torch.randn(4, 6, 8), torch.randn(9, 2, 8), torch.randn(4, 2, 8)
    mass = attention_mass(q, context, own, 0.4, segments=[(1, 5), (5, 9)])
    assert mass[0] == 0
    assert float(mass[1:5].sum()) == pytest.approx(1, abs=1e-5)
    assert float(mass[5:].sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("neox", [True, False])
def test_rotation_turns_each_pair_by_its_angle(neox: bool) -> None:
    torch.manual_seed(3)
    keys = torch.randn(5, 2, 8)
    angles = torch.arange(40)[:, None] * torch.tensor([1.0, 0.1, 0.01])
    table = torch.cat((angles.cos(), angles.sin()), -1)  # rotary_dim 6 of 8
    positions = torch.tensor([0, 1, 7, 20, 39])
    out = rotate(keys, positions, table, neox)
    assert torch.equal(out[..., 6:], keys[..., 6:])
    assert torch.allclose(out[0], keys[0])
    for n, p in enumerate(positions.tolist()):
        for i, step in enumerate((1.0, 0.1, 0.01)):
            a, b = (i, i + 3) if neox else (2 * i, 2 * i + 1)
            c, s = math.cos(p * step), math.sin(p * step)
            assert torch.allclose(out[n, :, a], keys[n, :, a] * c - keys[n, :, b] * s, atol=1e-5)
            assert torch.allclose(out[n, :, b], keys[n, :, b] * c + keys[n, :, a] * s, atol=1e-5)


def test_rotating_once_equals_rotating_in_two_steps() -> None:
    """Storing keys before RoPE and rotating once, and re-rotating by the difference, agree in fp32."""
    keys = torch.randn(6, 2, 8)
    angles = torch.arange(100)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
    table = torch.cat((angles.cos(), angles.sin()), -1)
    local, shift = torch.arange(6), torch.full((6,), 41)
    twice = rotate(rotate(keys, local, table, True), shift, table, True)
    assert torch.allclose(rotate(keys, local + 41, table, True), twice, atol=1e-4)


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("consecutive", [True, False])
def test_stitching_rotates_into_the_slots_and_touches_no_other(neox: bool, consecutive: bool) -> None:
    torch.manual_seed(4)
    angles = torch.arange(40)[:, None] * torch.tensor([1.0, 0.1, 0.01])
    table = torch.cat((angles.cos(), angles.sin()), -1)
    at = torch.arange(3, 15) if consecutive else torch.tensor([7, 3, 0, 19, 12, 1, 5, 8, 2, 16, 11, 4])
    place, keys, values = Place(at), torch.randn(9, 2, 8), torch.randn(9, 2, 8)
    assert (place.run is not None) == consecutive
    pool_k, pool_v = torch.full((20, 2, 8), 9.0), torch.full((20, 2, 8), 9.0)
    pieces = [KV(keys[a:b], values[a:b]) for a, b in ((0, 4), (4, 4), (4, 9))]
    stitch(pieces, place, table, neox, pool_k, pool_v)
    expected = rotate(keys, torch.arange(9), table, neox)
    assert torch.allclose(pool_k[at[:9]], expected, atol=1e-6)
    assert torch.equal(pool_v[at[:9]], values)
    others = torch.ones(20, dtype=torch.bool)
    others[at[:9]] = False
    assert (pool_k[others] == 9).all()
    assert (pool_v[others] == 9).all()
