"""The chunk store of a run: its tier, its throttle, and what 1x of bandwidth is."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench.assets.models import ModelRef
from bench.engine.engine import Engine
from bench.experiments import Sweep
from bench.request import Request
from bench.runners.prepare import Preparer
from bench.store import Store
from bench.store.disk import DiskStore
from bench.store.kernel_throttle import KernelThrottle
from bench.store.memory import MemoryStore

PREFILLS = 3
"""Full prefills whose median gives 1x."""


def store_of(sweep: Sweep, model: ModelRef, dtype: str, out: Path) -> Store:
    """The tier a sweep asks for; on disk in the run's folder."""
    if sweep.store == "memory":
        return MemoryStore()
    limit = None if sweep.store_limit_gb is None else int(sweep.store_limit_gb * 1e9)
    return DiskStore(out / "store", model=model.revision, dtype=dtype, limit_bytes=limit)


def kernel_throttle_of(sweep: Sweep, out: Path) -> KernelThrottle | None:
    """The kernel's throttle, where the sweep asks for it."""
    return KernelThrottle(out) if sweep.throttle == "kernel" else None


def bandwidth_unit(engine: Engine, preparer: Preparer, request: Request) -> float:
    """Bytes a second of 1x: a request's cached context in bytes / its full-prefill seconds (median of three).

    S is on the device for either side, so it counts in neither.
    """
    cached, store = preparer.caches(request), preparer.store
    whole = sum(store.layer_bytes(key) for key in cached.chunks) * engine.layers
    seconds = []
    for _ in range(PREFILLS):
        held = engine.hold(request.prefix)
        began = time.perf_counter()
        seconds.append(engine.prefill(request.ids, held).ended - began)
        engine.runtime.clear()
    return float(whole / statistics.median(seconds))
