"""The memory tier."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import torch

from bench.kv import Entry
from bench.store import DamagedEntry, Part, Take
from bench.store.throttle import Throttle


class MemoryStore:
    """Entries held as tensors on the host. What is warm: all of it, for every method alike.

    With a throttle it stands for a slower tier, whose reads cost what the throttle says and nothing else.
    """

    tier = "memory"
    how = "tensors in host memory"

    def __init__(self, throttle: Throttle | None = None) -> None:
        self.throttle = throttle
        self._entries: dict[str, Entry] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry, pinned where a GPU copies from it."""
        parts = [entry.keys.cpu(), entry.values.cpu(), entry.positions.cpu()]
        if torch.cuda.is_available():
            parts = [part.pin_memory() for part in parts]
        self._entries[key] = Entry(*parts)

    def _entry(self, key: str) -> Entry:
        try:
            return self._entries[key]
        except KeyError:
            raise DamagedEntry(key, "it is not in the store") from None

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions [n]."""
        return self._entry(key).positions

    def layer_bytes(self, key: str) -> int:
        """Bytes of one layer's keys and values."""
        entry = self._entry(key)
        return entry.keys[0].nbytes + entry.values[0].nbytes

    def read(
        self, key: str, layers: range, parts: Sequence[Part], take: Take
    ) -> dict[tuple[int, Part], torch.Tensor]:
        """Keys and values of neighbouring layers, each [n, Hkv, D], views of the entry; `take` rests."""
        found = {(layer, part): self.part(key, layer, part) for layer in layers for part in parts}
        if self.throttle is not None:
            self.throttle.deliver(sum(tensor.nbytes for tensor in found.values()), _nothing)
        return found

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One layer's keys or values, [n, Hkv, D]."""
        whole: torch.Tensor = getattr(self._entry(key), part)
        if not 0 <= layer < len(whole):
            raise DamagedEntry(key, f"layer {layer} is missing, it has {len(whole)} layers")
        return whole[layer]

    @contextlib.contextmanager
    def hold(self, keys: Iterable[str]) -> Iterator[None]:
        """Nothing evicts from memory; says so where an entry is missing."""
        for key in keys:
            self._entry(key)
        yield

    def drop(self, key: str) -> None:
        """Remove an entry."""
        self._entries.pop(key, None)

    def cool(self) -> None:
        """Nothing to forget: memory is the tier."""


def _nothing(offset: int, length: int) -> None:
    """The read of what is already at hand."""
