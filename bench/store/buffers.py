"""Reusable host buffers for reads: aligned for direct I/O, pinned where a GPU copies from them."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections import defaultdict

import torch

PAGE = 4096
"""What direct I/O wants addresses, offsets and sizes to be multiples of."""


HUGE = 1 << 21
"""From this size on memory is asked for in huge pages: a direct read into small ones, which the kernel pins
one by one, took up to twice as long."""
SHARED = 1 << 16
"""From this size on smaller buffers are cut out of huge pages; below it they are a few small pages."""


def aligned(size: int, pinned: bool = False) -> torch.Tensor:
    """A fresh CPU tensor [size] uint8 whose address is a whole page, a huge one for large sizes."""
    if size >= HUGE and not pinned:
        return _in_huge_pages(size)
    roomy = torch.empty(size + PAGE, dtype=torch.uint8, pin_memory=pinned)
    return _from_whole_page(roomy, size, PAGE)


def _in_huge_pages(size: int) -> torch.Tensor:
    memory = mmap.mmap(-1, size + HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel built without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    roomy = torch.frombuffer(memory, dtype=torch.uint8)
    return _from_whole_page(roomy, size, HUGE).zero_()  # touched here, or the first read touches page by page


def _from_whole_page(roomy: torch.Tensor, size: int, page: int) -> torch.Tensor:
    skip = -roomy.data_ptr() % page
    return roomy[skip : skip + size]


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
            if SHARED <= rounded < HUGE and not self.pinned:
                self.allocated += HUGE
                slab = aligned(HUGE)
                self._free[rounded] += [slab[at : at + rounded] for at in range(rounded, HUGE, rounded)]
                return slab[:rounded]
            self.allocated += rounded
        return aligned(rounded, self.pinned)

    def give(self, buffers: list[torch.Tensor]) -> None:
        """Take buffers back; nobody may look at them any more."""
        with self._lock:
            for buffer in buffers:
                self._free[len(buffer)].append(buffer)
