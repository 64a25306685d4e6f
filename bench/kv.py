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
    for a set of positions packed apart (QCFuse's anchors).
    """

    keys: torch.Tensor
    values: torch.Tensor
    positions: torch.Tensor

    def packed(self, positions: torch.Tensor) -> Entry:
        """The entry of some of the positions only (indices into this one), in sorted order."""
        at = positions.sort().values
        return Entry(self.keys[:, at].contiguous(), self.values[:, at].contiguous(), self.positions[at])
