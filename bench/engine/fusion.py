"""One request's selective recomputation, layer by layer (QCFuse, eq. 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from bench.engine.sglang import Runtime, Slots
from bench.engine.stopwatch import Stopwatch
from bench.kernels.place import Place
from bench.kernels.rows import gather_rows, scatter_rows
from bench.kernels.selected_attention import Mask, rows_of, selected_attention
from bench.kernels.stitch import stitch
from bench.kv import KV

Narrow = Callable[[int, KV, KV, torch.Tensor], torch.Tensor | None]
"""(layer, fresh, cached, context positions) -> the context positions to go on with, or None for all."""


class LayerSource(Protocol):
    """Where the cached keys and values of [S; C] come from, layer by layer."""

    def layer(self, layer: int) -> Sequence[KV]:
        """Keys before RoPE and values of positions 0..|S|+N-1, in consecutive pieces; returns when they
        are there. Pieces of an earlier layer are not looked at again."""


@dataclass(frozen=True)
class LayerTimes:
    """Readings of `time.perf_counter()` in seconds: a layer's computation runs from `began` to `ended`,
    but for its wait for cached keys and values."""

    began: float
    wait_began: float
    wait_ended: float
    ended: float


class Fusion:
    """The rows that are recomputed, on their way through the layers.

    Rows are the selected context positions, then the user query's; all are request positions, sorted.
    """

    def __init__(
        self, runtime: Runtime, ids: Sequence[int], slots: Slots, cached: int, source: LayerSource,
        positions: torch.Tensor, prefix: int, narrow: Narrow | None, mask: Mask,
    ) -> None:  # fmt: skip
        self.runtime, self.source, self.slots = runtime, source, slots
        self.total, self.prefix, self.mask, self._narrow = len(ids), prefix, mask, narrow
        self.watch = Stopwatch(runtime.device)
        self.place = Place(slots.at)
        self.query = self.place.positions[cached:]
        selected = positions.to(runtime.device) + prefix
        self.rows = rows_of(torch.cat((selected, self.query)), self.total, mask)
        self.counted: list[torch.Tensor] = []
        """Context positions whose keys and values each layer recomputed."""
        tokens = torch.tensor(ids, device=runtime.device)
        self.batch = runtime.rows(gather_rows(tokens, self.rows.positions), self.rows.positions, slots)

    def run(self) -> torch.Tensor:
        """All layers; logits [vocab] fp32 of the last row. Each layer leaves four stamps on the watch."""
        run = self.runtime
        with run.attention(self.attend):
            hidden = run.embed(self.batch)
            for layer in range(run.layers):
                self.watch.stamp()
                hidden = run.layer(layer, self.batch, hidden)
                self.watch.stamp()
            return run.head(self.batch, hidden)

    def attend(self, layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """A layer at its attention, its rows projected: load, stitch, narrow, place, attend."""
        i = layer.layer_id
        keys, values = self.runtime.keys(i), self.runtime.values(i)
        q = q.view(len(self.rows), layer.tp_q_head_num, layer.qk_head_dim)
        fresh = KV(k.view(len(q), *keys.shape[1:]), v.view(len(q), *values.shape[1:]))
        self.load(i, keys, values)
        kept = self.narrow(i, fresh, keys, values)
        scatter_rows(fresh.keys, fresh.values, self.slots.at[self.rows.positions], keys, values)
        if kept is not None:
            q = q[kept]
            self.runtime.narrow(self.batch, kept)
            self.rows = rows_of(self.rows.positions[kept], self.total, self.mask)
        return selected_attention(q, keys, values, self.place, self.rows, layer.scaling).flatten(1)

    def load(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Wait for the layer's cached keys and values and stitch them: Pi, into the request's slots."""
        rotary = self.runtime.rotary
        self.watch.stamp()
        pieces = self.source.layer(layer)
        self.watch.stamp()
        stitch(pieces, self.place, rotary.cos_sin_cache, rotary.is_neox_style, keys, values)

    def narrow(self, layer: int, fresh: KV, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
        """Which rows go on, as indices, where the method keeps fewer; None for all."""
        count = len(self.rows) - len(self.query)
        at = self.rows.positions[:count]
        self.counted.append(at - self.prefix)
        if self._narrow is None:
            return None
        stale = self.slots.at[at]
        new, old = KV(fresh.keys[:count], fresh.values[:count]), KV(keys[stale], values[stale])
        kept = self._narrow(layer, new, old, at - self.prefix)
        if kept is None:
            return None
        stay = torch.isin(at, kept.to(at.device) + self.prefix)
        behind = torch.arange(count, len(self.rows), device=at.device)
        return torch.cat((stay.nonzero()[:, 0], behind))
