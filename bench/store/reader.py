"""One request's reads of the chunk store: layer by layer, counted."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.kv import KV
from bench.store import Part, Store


class Reader:
    """Reads for one measured request. What was read once stays with the request and is not read again.

    `bytes_read` counts bytes of cached keys and values. Here
    is the place for throttling and for overlap: `layer` is called where that layer's attention begins.
    """

    def __init__(self, store: Store, entries: Sequence[str], device: str) -> None:
        self.store, self.entries, self.device = store, entries, device
        self.bytes_read = 0
        self._seen: dict[tuple[str, int, Part], torch.Tensor] = {}

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One entry's keys before RoPE or values at a layer, [n, Hkv, D], on the engine's device."""
        at = (key, layer, part)
        if at not in self._seen:
            tensor = self.store.part(key, layer, part).to(self.device)
            self.bytes_read += tensor.nbytes
            self._seen[at] = tensor
        return self._seen[at]

    def parts(self, keys: Sequence[str], layer: int, part: Part) -> torch.Tensor:
        """Several entries' keys or values at a layer, concatenated."""
        return torch.cat([self.part(key, layer, part) for key in keys])

    def layer(self, layer: int) -> KV:
        """Keys before RoPE and values of all the request's entries at a layer."""
        return KV(self.parts(self.entries, layer, "keys"), self.parts(self.entries, layer, "values"))
