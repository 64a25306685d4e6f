"""Measure one request under one method: time to first token, its parts, bytes, positions."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch

from bench.engine.engine import Engine, FirstToken
from bench.engine.fusion import Narrow
from bench.kernels.selected_attention import Mask
from bench.kv import KV
from bench.method import Method
from bench.request import Request
from bench.results.timeline import Timeline, timeline_of
from bench.store.reader import Reads
from bench.store.throttle import Throttle
from bench.view import Cached, RequestView


class MethodFault(Exception):
    """A method that breaks the rules of `bench.method`: the cell fails, the run goes on."""


class NotFinite(Exception):
    """A first token's logits that are not numbers: the cell fails, the run goes on."""


@dataclass(frozen=True)
class Measured:
    """One measured prefill; `row` are the fields of a result row that were measured, `positions` each
    layer's context positions recomputed."""

    first: FirstToken
    positions: list[torch.Tensor]
    row: dict[str, Any]
    timeline: Timeline


def measure(
    engine: Engine, reads: Reads, request: Request, method: Method, rho: float, cached: Cached,
    profile: Sequence[float] = (), throttle: Throttle | None = None,
) -> Measured:  # fmt: skip
    """Run one prefill, timed from the request's arrival to its first token on a monotonic clock.

    Inside the clock: selection with its loads, allocation of slots, loads, stitching, recomputation,
    the output head and the choice of the token. `throttle` slows the store's reads meanwhile. Raises
    `MethodFault` for a selection that breaks the budget.
    """
    if not method.uses_cache:
        return measure_full_prefill(engine, request, cold=not method.prefix_cached)
    budget, store = method.budget(request, rho), reads.store
    store.cool()
    try:
        with store.hold(cached.every), RequestView(engine, reads, request, cached, profile) as view, _quiet():
            store.throttle = throttle
            engine.runtime.synchronize()
            began = time.perf_counter()
            narrow = _narrow(method, budget)
            positions = _checked(method.select(request, view, budget), request, budget, narrow is not None)
            engine.runtime.synchronize()
            selected, reader = time.perf_counter(), view.reader
            before, waited = reader.bytes_read, reader.waited
            reader.begin_fusion()
            skip, mask = len(request.prefix), cast(Mask, method.mask)
            first = engine.fuse(
                request.ids, skip + request.context_tokens, reader, positions, skip, narrow, mask
            )
    finally:
        store.throttle = None
    _finite(engine, first)
    rows = [p.cpu() for p in first.positions]
    if len(rows[-1]) != budget:
        engine.runtime.release(first.slots)
        raise MethodFault(f"{len(rows[-1])} positions recomputed at the last layer, the budget is {budget}")
    return Measured(first, rows, {
        "ttft_s": first.ended - began,
        "select_s": selected - began,
        "select_wait_s": waited,
        "load_s": first.load_s,
        "recompute_s": first.head_began - selected - first.load_s,
        "first_token_s": first.ended - first.head_began,
        "bytes_before_fusion": before,
        "bytes_total": reader.bytes_read,
        **_selection(rows, request),
    }, timeline_of(began, selected, first, reader.loads))  # fmt: skip


def measure_full_prefill(engine: Engine, request: Request, cold: bool = False) -> Measured:
    """Full prefill, timed as by `measure`: no selection, no loads, all recomputation.

    S is in the pool when the request arrives, as every serving engine keeps a shared prefix, and as it is at
    hand for cached methods (`bench.store.reader.Reads.resident`); `cold` computes it too.
    """
    held = None if cold else engine.hold(request.prefix)
    with _quiet():
        engine.runtime.synchronize()
        began = time.perf_counter()
        first = engine.prefill(request.ids, held)
    _finite(engine, first)
    rows = [torch.arange(request.context_tokens)] * engine.layers
    return Measured(first, rows, {
        "ttft_s": first.ended - began,
        "select_s": 0.0,
        "select_wait_s": 0.0,
        "load_s": 0.0,
        "recompute_s": first.head_began - began,
        "first_token_s": first.ended - first.head_began,
        "bytes_before_fusion": 0,
        "bytes_total": 0,
        **_selection(rows, request),
    }, timeline_of(began, began, first, []))  # fmt: skip


def _finite(engine: Engine, first: FirstToken) -> None:
    """Raise `NotFinite`, giving the slots back, where the logits are not numbers."""
    if not bool(torch.isfinite(first.logits).all()):
        engine.runtime.release(first.slots)
        raise NotFinite("the first token's logits are not finite: see qcbench doctor --model")


def _selection(rows: list[torch.Tensor], request: Request) -> dict[str, Any]:
    """What was recomputed: `rows` are each layer's context positions."""
    return {
        "positions_recomputed": [len(r) for r in rows],
        "rho_effective": sum(map(len, rows)) / len(rows) / request.context_tokens,
        "evidence_recall": _recall(rows[-1], request.evidence),
        "needle_recall": _recall(rows[-1], request.needles),
        "selection_sha256": hashlib.sha256(b"|".join(r.numpy().tobytes() for r in rows)).hexdigest()[:16],
    }


def _recall(positions: torch.Tensor, wanted: Sequence[int]) -> float | None:
    return float(torch.isin(torch.tensor(wanted), positions).float().mean()) if wanted else None


def _checked(positions: torch.Tensor, request: Request, budget: int, shrinks: bool) -> torch.Tensor:
    """Sorted positions, or `MethodFault` where they are not what `select` promises."""
    n = request.context_tokens
    if positions.dtype != torch.int64 or positions.ndim != 1:
        raise MethodFault(
            f"select() returned {positions.dtype} of {positions.ndim} dimensions, not int64 of 1"
        )
    enough = len(positions) >= budget if shrinks else len(positions) == budget
    if not enough:
        raise MethodFault(f"select() returned {len(positions)} positions, the budget is {budget}")
    ordered = positions.sort().values
    if len(ordered) and (int(ordered[0]) < 0 or int(ordered[-1]) >= n):
        raise MethodFault(f"select() returned positions outside the context's 0..{n - 1}")
    if bool((ordered.diff() == 0).any()):
        raise MethodFault("select() returned a position twice")
    return ordered


def _narrow(method: Method, budget: int) -> Narrow | None:
    if type(method).narrow is Method.narrow:
        return None

    def narrow(layer: int, fresh: KV, cached: KV, positions: torch.Tensor) -> torch.Tensor | None:
        kept = method.narrow(layer, fresh, cached, positions, budget)
        return None if kept is None else kept.sort().values

    return narrow


@contextmanager
def _quiet() -> Iterator[None]:
    """No garbage collection inside the clock."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
