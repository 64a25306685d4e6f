"""Chunk store: position-independent caches, content-addressed, read layer by layer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import torch

from bench.kv import Entry

Part = Literal["keys", "values"]


class DamagedEntry(Exception):
    """An entry whose content does not match its checksum. The runner reports and rebuilds it."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"chunk store entry {key}: {why}")
        self.key = key


class Store(Protocol):
    """One tier of the chunk store."""

    tier: str

    def __contains__(self, key: str) -> bool: ...

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry whole or not at all."""

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions of an entry [n] int64 (an index: not counted as cache bytes)."""

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """Keys before RoPE or values of one layer, [n, Hkv, D]. Raises `DamagedEntry`."""

    def drop(self, key: str) -> None:
        """Remove an entry, if it is there."""

    def cool(self) -> None:
        """Forget what an earlier read left in fast memory, so that the next read pays in full."""


def chunk_key(model_revision: str, dtype: str, behind: Sequence[int], ids: Sequence[int]) -> str:
    """Content address of a chunk's cache: model, dtype, chunk prefix and token ids (32 hex digits)."""
    head = f"{model_revision}:{dtype}:{len(behind)}:".encode()
    return hashlib.sha256(head + np.asarray([*behind, *ids], dtype="<i8").tobytes()).hexdigest()[:32]


def packed_key(chunk: str, artifact: str) -> str:
    """Address of a set of a chunk's positions, packed apart under an artifact's name."""
    return hashlib.sha256(f"{chunk}:{artifact}".encode()).hexdigest()[:32]
