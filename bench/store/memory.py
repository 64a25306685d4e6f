"""The memory tier."""

from __future__ import annotations

import torch

from bench.kv import Entry
from bench.store import Part


class MemoryStore:
    """Entries held as tensors on the host. What is warm: all of it, for every method alike."""

    tier = "memory"

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry."""
        self._entries[key] = Entry(entry.keys.cpu(), entry.values.cpu(), entry.positions.cpu())

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions [n]."""
        return self._entries[key].positions

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One layer's keys or values, [n, Hkv, D]."""
        whole: torch.Tensor = getattr(self._entries[key], part)
        return whole[layer]

    def drop(self, key: str) -> None:
        """Remove an entry."""
        self._entries.pop(key, None)

    def cool(self) -> None:
        """Nothing to forget: memory is the tier."""
