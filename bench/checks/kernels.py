"""The Triton kernels on this GPU, beside their torch references and beside what the device reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.kernels.attention_mass import attention_mass, whole_matrix
from bench.kernels.place import Place
from bench.kernels.rotate import rotate
from bench.kernels.rows import gather_rows, scatter_rows
from bench.kernels.selected_attention import Rows, attend_rows, selected_attention
from bench.kernels.stitch import stitch
from bench.kv import KV

HEADS, KV_HEADS, SIZE, HIDDEN, CONTEXT, QUERY = 32, 8, 128, 4096, 10_240, 64
"""One layer of Qwen3-8B over 20 chunks of 512 tokens."""
RHO = 0.3


@dataclass(frozen=True)
class Ceilings:
    """What the device reaches on the simplest work."""

    tflops: float
    """bf16 matrix product, 10^12 operations a second."""
    gbytes: float
    """Copy inside device memory, 10^9 bytes read and written a second."""
    upload_gbytes: float
    """Copy from pinned host memory, 10^9 bytes a second."""


@dataclass(frozen=True)
class KernelCheck:
    """A kernel beside its torch reference: largest error relative to the largest value, and speed."""

    name: str
    error: float
    allowed: float
    ms: float
    reference_ms: float
    rate: float
    """TFLOP/s or GB/s."""
    unit: str
    ceiling: float

    @property
    def right(self) -> bool:
        """Whether the error is within what the dtype's rounding explains."""
        return self.error <= self.allowed


def ceilings() -> Ceilings:
    """Measure the device."""
    n, size = 8192, 1 << 30
    a, b = _draw(n, n), _draw(n, n)
    source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    host = torch.empty(size // 4, dtype=torch.uint8, pin_memory=True)
    product, copy = _ms(lambda: a @ b), _ms(lambda: target.copy_(source))
    upload = _ms(lambda: target[: size // 4].copy_(host, non_blocking=True))
    return Ceilings(2 * n**3 / product / 1e9, 2 * size / copy / 1e6, size / 4 / upload / 1e6)


def kernel_checks(limits: Ceilings) -> list[KernelCheck]:
    """Every kernel in bf16 at rho 0.3, its slots scattered over a pool of twice the size."""
    torch.manual_seed(0)
    n = CONTEXT + QUERY
    place = Place(torch.randperm(2 * n, device="cuda")[:n])
    chosen = torch.randperm(CONTEXT)[: int(RHO * CONTEXT)].sort().values
    rows = Rows(torch.cat((chosen, torch.arange(CONTEXT, n))).cuda())
    pool = _draw(2 * n, KV_HEADS, SIZE), _draw(2 * n, KV_HEADS, SIZE)
    return [
        _attention(place, rows, *pool, limits), _mass(place, *pool, limits), _stitch(place, *pool, limits),
        _scatter(place, rows, *pool, limits), _gather(rows, limits),
    ]  # fmt: skip


def _attention(
    place: Place, rows: Rows, keys: torch.Tensor, values: torch.Tensor, limits: Ceilings
) -> KernelCheck:
    q, k, v, scale = _draw(len(rows), HEADS, SIZE), place.of(keys), place.of(values), SIZE**-0.5
    exact = attend_rows(q.float(), k.float(), v.float(), rows, scale)

    def ours() -> torch.Tensor:
        return selected_attention(q, keys, values, place, rows, scale)

    ms, reference = _ms(ours), _ms(lambda: attend_rows(q, k, v, rows, scale))
    work = 4 * HEADS * SIZE * float((rows.positions + 1).sum()) / 1e9
    error = _error(ours(), exact)
    return KernelCheck("selected attention", error, 0.02, ms, reference, work / ms, "TFLOP/s", limits.tflops)


def _mass(place: Place, keys: torch.Tensor, values: torch.Tensor, limits: Ceilings) -> KernelCheck:
    q, k, scale = _draw(QUERY, HEADS, SIZE), place.of(keys), SIZE**-0.5
    context, own = k[:CONTEXT], k[CONTEXT:]

    def ours() -> torch.Tensor:
        return attention_mass(q, context, own, scale)

    def reference() -> torch.Tensor:
        return whole_matrix(q, context, own, scale)

    ms, reference_ms = _ms(ours), _ms(reference)
    work = 4 * HEADS * SIZE * QUERY * CONTEXT / 1e9  # each of the two passes makes the products
    error = _error(ours(), reference())
    return KernelCheck("attention mass", error, 0.01, ms, reference_ms, work / ms, "TFLOP/s", limits.tflops)


def _stitch(place: Place, keys: torch.Tensor, values: torch.Tensor, limits: Ceilings) -> KernelCheck:
    half = torch.arange(SIZE // 2) / (SIZE // 2)
    angles = torch.arange(len(place.at))[:, None] / 10_000**half
    table = torch.cat((angles.cos(), angles.sin()), -1).cuda()
    pieces = [KV(_draw(512, KV_HEADS, SIZE), _draw(512, KV_HEADS, SIZE)) for _ in range(CONTEXT // 512)]
    slots, positions = place.at[:CONTEXT], place.positions[:CONTEXT]

    def ours() -> None:
        stitch(pieces, place, table, True, keys, values)

    def reference() -> None:
        keys[slots] = rotate(torch.cat([kv.keys for kv in pieces]), positions, table, True)
        values[slots] = torch.cat([kv.values for kv in pieces])

    reference_ms = _ms(reference)
    keys[slots] = values[slots] = 0
    ms = _ms(ours)
    cached = torch.cat([kv.keys for kv in pieces])
    exact = rotate(cached.float(), positions, table, True)
    error = _error(keys[slots], exact) + _error(values[slots], torch.cat([kv.values for kv in pieces]))
    rate = 4 * cached.nbytes / 1e6 / ms  # keys and values, read and written
    return KernelCheck("rotate and scatter", error, 0.01, ms, reference_ms, rate, "GB/s", limits.gbytes)


def _scatter(
    place: Place, rows: Rows, keys: torch.Tensor, values: torch.Tensor, limits: Ceilings
) -> KernelCheck:
    k, v, slots = _draw(len(rows), KV_HEADS, SIZE), _draw(len(rows), KV_HEADS, SIZE), place.at[rows.positions]

    def reference() -> None:
        keys[slots], values[slots] = k, v

    def ours() -> None:
        scatter_rows(k, v, slots, keys, values)

    reference_ms = _ms(reference)
    keys[slots] = 0
    ms = _ms(ours)
    rate = 4 * k.nbytes / 1e6 / ms
    return KernelCheck(
        "scatter rows", _error(keys[slots], k), 0.0, ms, reference_ms, rate, "GB/s", limits.gbytes
    )


def _gather(rows: Rows, limits: Ceilings) -> KernelCheck:
    hidden = _draw(CONTEXT + QUERY, HIDDEN)

    def ours() -> torch.Tensor:
        return gather_rows(hidden, rows.positions)

    ms, reference_ms = _ms(ours), _ms(lambda: hidden[rows.positions])
    rate = 2 * len(rows) * HIDDEN * hidden.itemsize / 1e6 / ms
    error = _error(ours(), hidden[rows.positions])
    return KernelCheck("gather rows", error, 0.0, ms, reference_ms, rate, "GB/s", limits.gbytes)


def _draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def _ms(run: Callable[[], object]) -> float:
    """Median milliseconds of a call, the L2 cache flushed in between."""
    from triton.testing import do_bench  # type: ignore[import-untyped]

    return float(do_bench(run, return_mode="median"))


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(
        (found.float() - expected.float()).abs().max() / expected.float().abs().max().clamp(min=1e-9)
    )
