"""Fusion beside SGLang's own prefill on this device, and one Fig. 10 cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench.checks.speed import Stand
from bench.engine.engine import Engine
from bench.kv import Entry
from bench.methods import method_of
from bench.store.memory import MemoryStore
from bench.trust.model import Held

METHODS = ("full_prefill", "epic", "prophetkv", "qcfuse")


@dataclass(frozen=True)
class Equivalence:
    """Largest difference of the first token's logits from full prefill's, by how the cache was made."""

    everything: float
    """Every position recomputed."""
    exact: float
    """Nothing recomputed, cache of the whole context."""
    stale: float
    """Nothing recomputed, chunks cached alone: what the two above must be far below."""

    @property
    def right(self) -> bool:
        """A tenth of what stale caches do: bf16 on different kernels does not agree bit by bit."""
        return max(self.everything, self.exact) < self.stale / 10


def equivalence(engine: Engine, chunks: Sequence[Sequence[int]], query: Sequence[int]) -> Equivalence:
    """Fuse a request from stale and from exact caches; full prefill runs on its own backend."""
    context = [token for chunk in chunks for token in chunk]
    ids, runtime = [*context, *query], engine.runtime
    alone, whole = [engine.capture(chunk) for chunk in chunks], [engine.capture(context)]
    runtime.clear()
    full = engine.prefill(ids).logits.clone()

    def off(entries: Sequence[Entry], positions: torch.Tensor) -> float:
        runtime.clear()
        fused = engine.fuse(ids, len(context), Held(entries), positions)
        return float((fused.logits - full).abs().max())

    none = torch.arange(0)
    return Equivalence(off(alone, torch.arange(len(context))), off(whole, none), off(alone, none))


def fig10_cell(stand: Stand, rho: float, rounds: int = 3) -> dict[str, dict[str, float]]:
    """TTFT and its parts (s), the fastest of `rounds` of each method, in turn; caches in host memory."""
    reads, preparer = stand.reads(MemoryStore())
    cached = {name: preparer.caches(stand.request, method_of(name)) for name in METHODS}
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds + 1):
        for name, where in cached.items():
            row = stand.once(reads, name, 1.0 if name == "full_prefill" else rho, where)
            if name not in best or row["ttft_s"] < best[name]["ttft_s"]:
                best[name] = {part: row[part] for part in row if part.endswith("_s")}
    return best
