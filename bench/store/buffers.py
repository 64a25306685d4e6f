"""Reusable host buffers for reads: aligned for direct I/O, pinned where a GPU copies from them."""

from __future__ import annotations

import threading
from collections import defaultdict

import torch

PAGE = 4096


class Buffers:
    """Hands out aligned buffers and takes them back. Sizes are rounded up to powers of two."""

    def __init__(self, pinned: bool) -> None:
        self.pinned = pinned
        self.allocated = 0
        """Bytes ever allocated; buffers given back are used again and not counted again."""
        self._free: dict[int, list[torch.Tensor]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, size: int) -> torch.Tensor:
        """A uint8 CPU tensor of `size` bytes or a little more, at an address that is a multiple of 4096."""
        rounded = max(PAGE, 1 << (size - 1).bit_length())
        with self._lock:
            if self._free[rounded]:
                return self._free[rounded].pop()
            self.allocated += rounded
        raw = torch.empty(rounded + PAGE, dtype=torch.uint8, pin_memory=self.pinned)
        begin = -raw.data_ptr() % PAGE
        return raw[begin : begin + rounded]

    def give(self, buffers: list[torch.Tensor]) -> None:
        """Take buffers back; nobody may look at them any more."""
        with self._lock:
            for buffer in buffers:
                self._free[len(buffer)].append(buffer)
