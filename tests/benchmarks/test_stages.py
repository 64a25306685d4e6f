"""The paper's stages on one request of 20 chunks x 100 tokens: select, stitch, recompute, whole requests.

Run with `make bench`; times are compared, never asserted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from bench.assets.models import resolve
from bench.checks.speed import Stand
from bench.kernels.attention_mass import whole_matrix
from bench.kernels.place import Place
from bench.kernels.rotate import rotate
from bench.kernels.selected_attention import Rows, attend_rows
from bench.kernels.stitch import stitch
from bench.kv import KV
from bench.method import budget_of
from bench.methods import method_of
from bench.runners.run import tokenizer_of
from bench.store.memory import MemoryStore
from bench.view import RequestView

MODEL, CONTEXT, RHO = "smollm2-135m", 2000, 0.3
pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def stand(engine_of: Any) -> Stand:
    model = resolve(MODEL)
    return Stand(model, engine_of(MODEL), tokenizer_of(model), CONTEXT)


@pytest.fixture(scope="module")
def filled(stand: Stand) -> tuple[Any, Any]:
    return stand.reads(MemoryStore())


@pytest.mark.parametrize("method", ["epic", "fusionrag", "qcfuse", "prophetkv"])
def test_select(benchmark: Any, stand: Stand, filled: tuple[Any, Any], method: str) -> None:
    reads, preparer = filled
    named = method_of(method)
    cached, middle = preparer.caches(stand.request, named), stand.engine.layers // 2
    profile = [-abs(layer - middle) for layer in range(stand.engine.layers)]

    def select() -> None:
        with RequestView(stand.engine, reads, stand.request, cached, profile) as view:
            named.method.select(stand.request, view, budget_of(RHO, CONTEXT))

    benchmark.group = f"select: warm memory, {CONTEXT} context tokens"
    benchmark.pedantic(select, rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_recompute(benchmark: Any, stand: Stand, filled: tuple[Any, Any], rho: float) -> None:
    reads, preparer = filled
    cached = preparer.caches(stand.request)
    benchmark.group = f"recompute: EPIC from warm memory, {CONTEXT} context tokens"
    benchmark.pedantic(partial(stand.once, reads, "epic", rho, cached), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize(
    "method", ["full_prefill", "direct_reuse", "cacheblend", "epic", "fusionrag", "qcfuse", "prophetkv"]
)
def test_whole_request(benchmark: Any, stand: Stand, filled: tuple[Any, Any], method: str) -> None:
    reads, preparer = filled
    named = method_of(method)
    rho = RHO if named.method.rho is None else named.method.rho
    cached = preparer.caches(stand.request, named)
    benchmark.group = f"whole request: rho {RHO}, {CONTEXT} context tokens"
    benchmark.pedantic(partial(stand.once, reads, method, rho, cached), rounds=3, warmup_rounds=1)


def shapes() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """SmolLM2's heads: queries of selected rows, keys, values, the rows' positions, the rotation's table."""
    torch.manual_seed(0)
    n = CONTEXT + 40
    positions = torch.cat(
        (torch.randperm(CONTEXT)[: int(RHO * CONTEXT)].sort().values, torch.arange(CONTEXT, n))
    )
    angles = torch.arange(n)[:, None] / 10_000 ** (torch.arange(32) / 32)
    table = torch.cat((angles.cos(), angles.sin()), -1)
    return torch.randn(len(positions), 9, 64), torch.randn(n, 3, 64), torch.randn(n, 3, 64), positions, table


@pytest.mark.parametrize("how", ["blocks of rows", "one mask"])
def test_selected_attention(benchmark: Any, how: str) -> None:
    q, k, v, positions, _ = shapes()
    if how == "one mask":
        seen = torch.arange(len(k))[None, :] <= positions[:, None]
        run: Callable[[], object] = lambda: torch.nn.functional.scaled_dot_product_attention(  # noqa: E731
            *(x.movedim(0, 1)[None] for x in (q, k, v)), attn_mask=seen, scale=0.125, enable_gqa=True
        )
    else:
        run = partial(attend_rows, q, k, v, Rows(positions), 0.125)
    benchmark.group = f"recompute: attention of {len(positions)} selected rows, a layer"
    benchmark.pedantic(run, rounds=10, warmup_rounds=2)


@pytest.mark.parametrize("how", ["into the slots", "rotate, then put"])
def test_stitch(benchmark: Any, how: str) -> None:
    _, k, v, _, table = shapes()
    pool_k, pool_v, place = torch.zeros_like(k), torch.zeros_like(v), Place(torch.arange(len(k)))
    pieces = [KV(k[a : a + 100], v[a : a + 100]) for a in range(0, CONTEXT, 100)]

    def plain() -> None:
        pool_k[:CONTEXT] = rotate(torch.cat([kv.keys for kv in pieces]), torch.arange(CONTEXT), table, True)
        pool_v[:CONTEXT] = torch.cat([kv.values for kv in pieces])

    run = plain if how == "rotate, then put" else partial(stitch, pieces, place, table, True, pool_k, pool_v)
    benchmark.group = f"stitch: 20 pieces of {CONTEXT} keys and values, a layer"
    benchmark.pedantic(run, rounds=20, warmup_rounds=2)


def test_attention_mass(benchmark: Any) -> None:
    q, k, _, _, _ = shapes()
    benchmark.group = "select: attention mass of 40 query tokens, a layer"
    benchmark.pedantic(
        partial(whole_matrix, q[-40:], k[:CONTEXT], k[CONTEXT:], 0.125), rounds=20, warmup_rounds=2
    )
