"""Keys, values and queries: what caches and probes are made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class KV:
    """keys and values, each [n, Hkv, D]."""

    keys: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True)
class States:
    """The query tokens' states at layers 0..len-1 of a probe, after RoPE."""

    queries: list[torch.Tensor]
    """[T, Hq, D] a layer."""
    keys: list[torch.Tensor]
    """[T, Hkv, D] a layer."""


@dataclass(frozen=True)
class Entry:
    """A position-independent cache: keys before RoPE (after q/k-norm) and values, of every layer.

    keys and values [L, n, Hkv, D]; positions [n] int64, chunk-local: 0..n-1 for a whole chunk, fewer
    for a set of positions packed apart (QCFuse's anchors), [L, n] where each layer has its own set.
    """

    keys: torch.Tensor
    values: torch.Tensor
    positions: torch.Tensor

    def packed(self, positions: torch.Tensor) -> Entry:
        """The entry of some of the positions only (indices [k], or [L, k] for each layer), sorted."""
        at = positions.sort().values
        if at.ndim == 2:
            layer = torch.arange(len(at))[:, None]
            return Entry(self.keys[layer, at], self.values[layer, at], self.positions[at])
        return Entry(self.keys[:, at].contiguous(), self.values[:, at].contiguous(), self.positions[at])
