"""The metered view of a request's caches, as `bench.method.View` describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from bench.engine.engine import Engine
from bench.kernels.attention_mass import Reduce, attention_mass
from bench.kv import KV, Entry, States
from bench.method import Softmax
from bench.request import Request
from bench.store import Part
from bench.store.reader import Reader, Reads


@dataclass(frozen=True)
class Cached:
    """Where a request's caches lie in the store: keys of S (where there is one) and of each chunk.

    `packed` are the position sets a method prepared: for each name one entry key a chunk.
    """

    prefix: tuple[str, ...]
    chunks: tuple[str, ...]
    packed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries of positions 0..|S|+N-1, in order."""
        return (*self.prefix, *self.chunks)

    @property
    def every(self) -> tuple[str, ...]:
        """The packed sets' entries too."""
        return (*self.entries, *(key for keys in self.packed.values() for key in keys))


class RequestView:
    """What a method may look at before fusion; every read goes through the request's reader.

    A context manager, as its reader is one.
    """

    def __init__(
        self, engine: Engine, reads: Reads, request: Request, cached: Cached, profile: Sequence[float] = ()
    ) -> None:
        self.engine, self.request, self.cached, self.profile = engine, request, cached, profile
        self.layers = engine.layers
        self.reader = Reader(reads, cached.entries, engine.layers)
        self._after_rope: dict[int, torch.Tensor] = {}
        self._exact: Entry | None = None
        self._skip = len(request.prefix)
        self._every = torch.arange(self._skip + request.context_tokens, device=engine.device)

    def __enter__(self) -> RequestView:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.__exit__()

    def _visible(self, context: str | None) -> tuple[list[str], torch.Tensor]:
        """Entries the probe sees and their request positions, [n] or [L, n]."""
        if context == "all":
            return list(self.cached.entries), self._every
        keys, positions = list(self.cached.prefix), [self._every[: self._skip]]
        if context is not None:
            if context not in self.cached.packed:
                known = ", ".join(sorted(self.cached.packed)) or "none"
                raise KeyError(f"no position set {context!r} was prepared (there are: {known})")
            starts = self.request.chunk_starts
            for key, start in zip(self.cached.packed[context], starts, strict=True):
                keys.append(key)
                positions.append(self.reader.store.positions(key).to(self._every.device) + self._skip + start)
        if any(p.ndim == 2 for p in positions):  # each layer has its own
            positions = [p if p.ndim == 2 else p.expand(self.layers, -1) for p in positions]
        return keys, torch.cat(positions, -1)

    def probe(
        self, context: str | None, last_layer: int | None = None, fetch: Sequence[int] = (),
        question_only: bool = False,
    ) -> States:  # fmt: skip
        """Run the user query over S and a context cache (see `bench.method.View`)."""
        keys, positions = self._visible(context)
        last = self.layers - 1 if last_layer is None else last_layer
        reader = self.reader
        # A set of positions is small and comes first; of the whole cache a few layers are ahead at a time.
        if context == "all":
            reader.soon(keys, 0, last + 1)
        else:
            reader.ahead(keys, range(last + 1))
        for layer in fetch:
            reader.ahead(self.cached.entries, range(layer, layer + 1), ("keys",))

        def at(layer: int) -> KV:
            reader.soon(keys, layer, last + 1)
            if context == "all":
                return KV(self._rotated(layer), self._stitched(layer, "values"))
            here = positions if positions.ndim == 1 else positions[layer]
            rotated = self.engine.rotate(reader.parts(keys, layer, "keys"), here)
            return KV(rotated, reader.parts(keys, layer, "values"))

        question = self.request.question if question_only else (0, 0)
        begin, end = question if question != (0, 0) else (0, len(self.request.query))
        query = self.request.query[begin:end]
        return self.engine.probe(query, len(self._every) + begin, at if keys else None, last)

    def attention(
        self,
        states: States,
        layer: int,
        *,
        heads: Reduce = "mean",
        tokens: Reduce = "mean",
        softmax: Softmax = "global",
    ) -> torch.Tensor:
        """Attention mass [N] of each context position at a layer."""
        keys = self._rotated(layer)
        segments = [(0, len(keys))] if softmax == "context" else None
        if softmax == "chunk":
            starts = zip(self.request.chunk_starts, self.request.chunks, strict=True)
            segments = [(self._skip + s, self._skip + s + len(c)) for s, c in starts]
        mass = attention_mass(
            states.queries[layer], keys, states.keys[layer], self.engine.scale, heads, tokens, segments
        )
        return mass[self._skip :]

    def exact(self, layer: int) -> KV:
        """Keys (after Pi) and values of the context as full prefill computes them, [N, Hkv, D]."""
        if self._exact is None:
            self._exact = self.engine.capture(self.request.ids[: len(self._every)])
        keys = self.engine.rotate(self._exact.keys[layer], self._every)
        return KV(keys[self._skip :], self._exact.values[layer][self._skip :])

    def keys(self, layer: int) -> torch.Tensor:
        """Stitched context keys at a layer, after Pi, [N, Hkv, D]."""
        return self._rotated(layer)[self._skip :]

    def values(self, layer: int) -> torch.Tensor:
        """Stitched context values at a layer, [N, Hkv, D]."""
        return self._stitched(layer, "values")[self._skip :]

    def _stitched(self, layer: int, part: Part) -> torch.Tensor:
        return self.reader.parts(self.cached.entries, layer, part)

    def _rotated(self, layer: int) -> torch.Tensor:
        """Stitched keys of [S; C] after Pi: rotated once, however often they are looked at."""
        if layer not in self._after_rope:
            self._after_rope[layer] = self.engine.rotate(self._stitched(layer, "keys"), self._every)
        return self._after_rope[layer]
