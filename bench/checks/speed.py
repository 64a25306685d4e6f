"""Is recomputation as cheap as its arithmetic, and is loading hidden behind it?"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.assets.models import ModelRef
from bench.engine.engine import Engine
from bench.flops import ModelShape
from bench.method import budget_of, per_chunk
from bench.methods import method_of
from bench.request import Request
from bench.runners.measure import measure
from bench.runners.prepare import Preparer
from bench.store import Store
from bench.store.disk import DiskStore
from bench.store.memory import MemoryStore
from bench.store.reader import Reads
from bench.store.throttle import Throttle
from bench.view import Cached

RHOS = (0.1, 0.3, 0.5)
CHUNKS, QUERY_TOKENS = 20, 40


@dataclass(frozen=True)
class Recompute:
    """Median TTFTs in seconds and their median paired ratio, beside the ratio of counted operations."""

    rho: float
    ttft_s: float
    full_s: float
    ratio: float
    flops_ratio: float

    @property
    def over(self) -> float:
        """1 where the time is what the operations say."""
        return self.ratio / self.flops_ratio


@dataclass(frozen=True)
class Overlap:
    """Median seconds of one method, with the store as slow as its recomputation."""

    method: str
    rho: float
    bytes_per_s: float
    select_s: float
    compute_s: float
    load_s: float
    pipelined_s: float
    one_by_one_s: float

    @property
    def over(self) -> float:
        """1 where the shorter of loading and computing is hidden entirely."""
        return self.pipelined_s / (max(self.load_s, self.compute_s) + self.select_s)


class Stand:
    """A model and a request of random tokens: `context` of them in 20 chunks, and a query of 40."""

    def __init__(self, model: ModelRef, engine: Engine, tokenizer: Any, context: int) -> None:
        self.engine, self.model, self.tokenizer = engine, model, tokenizer
        self.shape = ModelShape.of(model.path)
        draw, top = random.Random(0), min(engine.runtime.vocab, 20_000)
        ids = [draw.randrange(top // 10, top) for _ in range(context + QUERY_TOKENS)]
        cuts = [context * i // CHUNKS for i in range(CHUNKS + 1)]
        chunks = tuple(tuple(ids[a:b]) for a, b in pairwise(cuts))
        self.request = Request("speed", "random", (), chunks, tuple(ids[context:]), (), 1, evidence=(0, 1))

    def reads(self, store: Store, overlap: bool = True) -> tuple[Reads, Preparer]:
        """A store's reads, and what fills it."""
        reads = Reads(store, self.engine.device, overlap)
        return reads, Preparer(self.engine, reads, self.tokenizer, self.model.revision)

    def once(
        self, reads: Reads, method: str, rho: float, cached: Cached, throttle: Throttle | None = None
    ) -> dict[str, Any]:
        """The measured fields of one prefill."""
        middle = self.engine.layers // 2
        profile = [-abs(layer - middle) for layer in range(self.engine.layers)]  # middle layers, say
        self.engine.runtime.clear()
        chosen = method_of(method).method
        return measure(self.engine, reads, self.request, chosen, rho, cached, profile, throttle).row

    def selected(self, rho: float) -> list[int]:
        """The positions EPIC recomputes, and the query's."""
        shares = per_chunk(self.request, budget_of(rho, self.request.context_tokens))
        starts = zip(self.request.chunk_starts, shares, strict=True)
        n = self.request.context_tokens
        return [p for start, k in starts for p in range(start, start + k)] + [*range(n, n + QUERY_TOKENS)]


def recompute_cost(stand: Stand, rounds: int) -> list[Recompute]:
    """EPIC in warm memory against full prefill, in turn; one round more at the start is not counted."""
    reads, preparer = stand.reads(MemoryStore())
    cached = preparer.caches(stand.request)
    full: list[float] = []
    fused: dict[float, list[float]] = {rho: [] for rho in RHOS}
    for _ in range(rounds + 1):
        full.append(stand.once(reads, "full_prefill", 1.0, cached)["ttft_s"])
        for rho in RHOS:
            fused[rho].append(stand.once(reads, "epic", rho, cached)["ttft_s"])
    whole = stand.shape.flops(range(len(stand.request.ids)))
    return [
        Recompute(
            rho, median(times[1:]), median(full[1:]),
            median(a / b for a, b in zip(times[1:], full[1:], strict=True)),
            stand.shape.flops(stand.selected(rho)) / whole,
        )
        for rho, times in fused.items()
    ]  # fmt: skip


def overlap(stand: Stand, folder: Path, methods: Sequence[str], rho: float, rounds: int) -> list[Overlap]:
    """Each method on the disk tier, throttled so that loading the whole cache takes as long as recomputing.

    In turn: in warm memory (which tells selection and recomputation without loads), pipelined, and with
    each layer loaded where it is needed.
    """
    in_memory, preparer = stand.reads(MemoryStore())
    found = []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        disk = DiskStore(Path(place), model=stand.model.revision, dtype=str(stand.engine.dtype))
        ahead, fill = stand.reads(disk)
        one_by_one, _ = stand.reads(disk, overlap=False)
        for name in methods:
            named = method_of(name)
            warm, cached = preparer.caches(stand.request, named), fill.caches(stand.request, named)
            whole = sum(disk.layer_bytes(key) for key in cached.entries) * stand.engine.layers
            for _ in range(2):
                compute = stand.once(in_memory, name, rho, warm)["recompute_s"]
            throttle = Throttle(whole / compute)
            kinds = {
                "memory": (in_memory, warm, None),
                "pipelined": (ahead, cached, throttle),
                "one by one": (one_by_one, cached, throttle),
            }
            rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
            for number in range(rounds + 1):
                for kind, (reads, where, slow) in kinds.items():
                    row = stand.once(reads, name, rho, where, slow)
                    rows[kind] += [row] if number else []
            found.append(_overlap(name, rho, throttle.bytes_per_s, rows))
    return found


def _overlap(method: str, rho: float, bytes_per_s: float, rows: dict[str, list[dict[str, Any]]]) -> Overlap:
    piped, memory = rows["pipelined"], rows["memory"]
    return Overlap(
        method, rho, bytes_per_s,
        select_s=median(r["select_s"] for r in piped),
        compute_s=median(r["recompute_s"] + r["first_token_s"] for r in memory),
        load_s=median(r["bytes_total"] - r["bytes_before_fusion"] for r in piped) / bytes_per_s,
        pipelined_s=median(r["ttft_s"] for r in piped),
        one_by_one_s=median(r["ttft_s"] for r in rows["one by one"]),
    )  # fmt: skip
