"""A store that counts what is really read from it, whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import torch

from bench.kv import Entry
from bench.store import Part, Take
from bench.store.memory import MemoryStore
from bench.store.throttle import Throttle


class SpyStore:
    """A memory tier behind a counter of bytes; its entries can be reached through `read` and `part` only."""

    tier, how = "memory", "tensors in host memory, counted"

    def __init__(self) -> None:
        self.bytes_read = 0
        self.throttle: Throttle | None = None
        self.__behind = MemoryStore()
        self._lock = threading.Lock()

    def _count(self, tensors: Iterable[torch.Tensor]) -> None:
        with self._lock:
            self.bytes_read += sum(tensor.nbytes for tensor in tensors)

    def __contains__(self, key: str) -> bool:
        return key in self.__behind

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry."""
        self.__behind.put(key, entry)

    def positions(self, key: str) -> torch.Tensor:
        """An index, not counted."""
        return self.__behind.positions(key)

    def layer_bytes(self, key: str) -> int:
        """Bytes of one layer's keys and values."""
        return self.__behind.layer_bytes(key)

    def read(
        self, key: str, layers: range, parts: Sequence[Part], take: Take
    ) -> dict[tuple[int, Part], torch.Tensor]:
        """A counted read."""
        found = self.__behind.read(key, layers, parts, take)
        self._count(found.values())
        return found

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """The offline way, counted all the same."""
        found = self.__behind.part(key, layer, part)
        self._count([found])
        return found

    def hold(self, keys: Iterable[str]) -> AbstractContextManager[None]:
        """As the memory tier."""
        return self.__behind.hold(keys)

    def drop(self, key: str) -> None:
        """Remove an entry."""
        self.__behind.drop(key)

    def cool(self) -> None:
        """As the memory tier."""
        self.__behind.cool()
