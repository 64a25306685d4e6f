"""Where a method is tried: one model, requests of any shape, stores of any tier."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bench.conformance.outcome import Skipped
from bench.conformance.watch import Watch, watching
from bench.engine.engine import Engine
from bench.kv import Entry
from bench.method import Method
from bench.methods import NamedMethod, method_of
from bench.request import Request
from bench.runners.measure import measure
from bench.runners.prepare import Preparer
from bench.store import Store, chunk_key
from bench.store.memory import MemoryStore
from bench.store.reader import Reads

TOLERANCE = 1e-3
"""Logits, keys and values in fp32: as in the tests of the engine against full prefill."""
USUAL = (24, 24, 9)
"""Tokens of the chunks of a request, where a check asks for nothing special."""
RHO = 0.5


@dataclass(frozen=True)
class Run:
    """One measured prefill and what it left behind."""

    row: dict[str, Any]
    logits: torch.Tensor
    positions: list[torch.Tensor]
    """Context positions recomputed, a layer."""
    cache: list[torch.Tensor]
    """Keys and values of every request position after fusion, [T, Hkv, 2D] a layer."""

    def off(self, other: Run) -> float:
        """Largest difference of logits, keys and values."""
        pairs = [(self.logits, other.logits), *zip(self.cache, other.cache, strict=True)]
        return max(float((a - b).abs().max()) for a, b in pairs)

    def same(self, other: Run) -> bool:
        """The same selection at every layer and the same logits, to the bit."""
        if not torch.equal(self.logits, other.logits):
            return False
        return all(map(torch.equal, self.positions, other.positions))


Captured = dict[str, Entry]


class _Preparer(Preparer):
    """Chunks alone are the same whatever method asks for them: forwarded once, copied into each store."""

    def __init__(self, engine: Engine, reads: Reads, tokenizer: Any, captured: Captured) -> None:
        super().__init__(engine, reads, tokenizer, "conformance")
        self._captured = captured

    def capture(self, ids: Sequence[int], behind: Sequence[int] = ()) -> str:
        """As ever, from the copies where there is one."""
        key = chunk_key(self.revision, str(self.engine.dtype), behind, ids)
        if key not in self._captured:
            self._captured[key] = self.engine.capture(ids, behind)
        if key not in self.store:
            kept = self._captured[key]
            self.store.put(key, Entry(kept.keys.clone(), kept.values.clone(), kept.positions.clone()))
        return key


class Stand:
    """A method, by its specification, on an engine. Every `setup` is a fresh instance and a fresh store.

    `captured` may be shared by the stands of an engine.
    """

    def __init__(self, engine: Engine, tokenizer: Any, spec: str, captured: Captured | None = None) -> None:
        self.engine, self.tokenizer, self.spec = engine, tokenizer, spec
        self.captured: Captured = {} if captured is None else captured
        self.named = method_of(spec)

    @property
    def method(self) -> Method:
        """An instance to ask for its parameters; runs have their own."""
        return self.named.method

    @property
    def narrows(self) -> bool:
        """Whether the method has a narrow() of its own."""
        return type(self.method).narrow is not Method.narrow

    @property
    def nominal(self) -> float | None:
        """The method's own rho on a usual request; None where rho is swept."""
        return self.method.nominal(len(USUAL), USUAL[0])

    def request(
        self, lengths: Sequence[int] = USUAL, prefix: int = 5, query: int = 6, seed: int = 1
    ) -> Request:
        """Random tokens; the same for the same arguments."""
        draw, top = random.Random(seed), min(self.engine.runtime.vocab, 20000)
        parts = [tuple(draw.randrange(3, top) for _ in range(n)) for n in (*lengths, prefix, query)]
        n = sum(lengths)
        evidence = tuple(range(n // 3, min(n, n // 3 + 2)))
        return Request(
            f"conformance-{seed}", "conformance", parts[-2], tuple(parts[:-2]), parts[-1], ("x",), 4,
            evidence, (1, query - 1),
        )  # fmt: skip

    @cached_property
    def profile(self) -> list[float]:
        """The method's own profile on this model; empty without one."""
        if type(self.method).profile is Method.profile:
            return []
        with tempfile.TemporaryDirectory() as folder, self.setup(profiled=False) as setup:
            calibration = [self.request(seed=11), self.request(seed=12)]
            return setup.preparer.profile(setup.named, calibration, Path(folder))

    @contextmanager
    def setup(self, store: Store | None = None, profiled: bool = True) -> Iterator[Setup]:
        """A fresh instance of the method beside a store, in memory unless another is given."""
        reads = Reads(store or MemoryStore(), self.engine.device)
        try:
            yield Setup(self, method_of(self.spec), reads, list(self.profile) if profiled else [])
        finally:
            reads.close()

    def full_prefill(self, request: Request) -> Run:
        """The model's own prefill of the whole request."""
        self.engine.runtime.clear()
        first = self.engine.prefill(request.ids)
        return self.run_of(first, {}, request)

    def run_of(self, first: Any, row: dict[str, Any], request: Request) -> Run:
        """Copy what a prefill left in the pool."""
        runtime, at = self.engine.runtime, first.slots.at
        layers = range(self.engine.layers)
        cache = [torch.cat((runtime.keys(i)[at], runtime.values(i)[at]), -1).cpu() for i in layers]
        every = torch.arange(request.context_tokens)
        positions = [p.cpu() for p in first.positions] or [every for _ in layers]
        return Run(row, first.logits.cpu(), positions, cache)


class Setup:
    """One instance of the method, one store, one preparer: what lives through a benchmark run."""

    def __init__(self, stand: Stand, named: NamedMethod, reads: Reads, profile: list[float]) -> None:
        self.stand, self.named, self.reads, self.profile = stand, named, reads, profile
        self.preparer = _Preparer(stand.engine, reads, stand.tokenizer, stand.captured)

    def run(
        self, request: Request, rho: float = RHO, watch: Watch | None = None, method: Method | None = None
    ) -> Run:
        """Prepare, select and fuse once, under the method's own rho where it has one.

        `method` takes the place of the method under test, without preparation.
        """
        stand, chosen = self.stand, method or self.named.method
        why = chosen.skip(request)
        if why is not None:
            raise Skipped(why)
        cached = self.preparer.caches(request, self.named if method is None else None)
        stand.engine.runtime.clear()
        with watching(chosen, watch or Watch()):
            measured = measure(
                stand.engine, self.reads, request, chosen, _own(chosen, request, rho), cached, self.profile
            )
        return stand.run_of(measured.first, measured.row, request)

    def budget(self, request: Request, rho: float = RHO) -> int:
        """What `run` has to recompute at the last layer."""
        method = self.named.method
        return method.budget(request, _own(method, request, rho))

    def stored(self, request: Request) -> dict[str, torch.Tensor]:
        """A copy of all that the store holds for a request, captured if it is not there yet."""
        cached = self.preparer.caches(request)
        known = [key for sets in self.preparer._sets.values() for key in sets.values()]
        return {key: self._copy(key) for key in (*cached.entries, *known)}

    def _copy(self, key: str) -> torch.Tensor:
        store, layers = self.reads.store, range(self.stand.engine.layers)
        parts = [store.part(key, i, part).flatten() for i in layers for part in ("keys", "values")]
        return torch.cat([*parts, store.positions(key).flatten().to(parts[0].dtype)])


def _own(method: Method, request: Request, rho: float) -> float:
    """The method's own rho where it is not swept."""
    nominal = method.nominal(len(request.chunks), len(request.chunks[0]))
    return rho if nominal is None else nominal
