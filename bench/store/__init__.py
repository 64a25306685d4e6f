"""Chunk store: position-independent caches, content-addressed, read layer by layer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import numpy as np
import torch

from bench.kv import Entry
from bench.store.throttle import Throttle

Part = Literal["keys", "values"]

Take = Callable[[int], torch.Tensor]
"""Gives a CPU tensor [size or more] uint8 for a size in bytes; size and address are multiples of 4096.

It may be pinned, and may be used again once nobody looks at the tensors read into it.
"""


class DamagedEntry(Exception):
    """An entry that is not what was written: damaged, of another model, or gone. The runner rebuilds it."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"chunk store entry {key}: {why}")
        self.key, self.why = key, why

    def __reduce__(self) -> tuple[type[DamagedEntry], tuple[str, str]]:
        return DamagedEntry, (self.key, self.why)


class Store(Protocol):
    """One tier of the chunk store. All of it may be called from several threads."""

    tier: str
    how: str
    """How reads reach the tier, in a few words, for the run's record."""
    throttle: Throttle | None
    """Slows `read`, and nothing else. May change between requests."""

    def __contains__(self, key: str) -> bool: ...

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry whole or not at all."""

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions of an entry [n] int64 (an index: not throttled, not counted)."""

    def layer_bytes(self, key: str) -> int:
        """Bytes of one layer's keys and values, without padding."""

    def read(
        self, key: str, layers: range, parts: Sequence[Part], take: Take
    ) -> dict[tuple[int, Part], torch.Tensor]:
        """Keys before RoPE and values of neighbouring layers, each [n, Hkv, D], as the throttle allows.

        `layers` has step 1. On disk the tensors are views of buffers that `take` gave; in memory, of the
        entry itself. Raises `DamagedEntry`.
        """

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """Keys before RoPE or values of one layer, [n, Hkv, D]: not throttled, for offline use.

        Raises `DamagedEntry`.
        """

    def hold(self, keys: Iterable[str]) -> AbstractContextManager[None]:
        """Keep entries readable while a request uses them, whoever evicts or deletes them meanwhile.

        Opens and checks what was not checked yet, so that reads within need not. Raises `DamagedEntry`.
        """

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
