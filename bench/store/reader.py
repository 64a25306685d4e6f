"""One request's reads of the chunk store: ahead of their use, by a pool of threads, counted and stamped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch

from bench.kv import KV
from bench.store import Part, Store
from bench.store.buffers import Buffers

BOTH: tuple[Part, ...] = ("keys", "values")
AHEAD = 6
"""Layers loaded ahead of the one being computed: computing and loading a layer vary, and what one waited for
the other cannot catch up with less."""
THREADS = 4
"""Reads in flight at a time; more did not raise the rate of the disks seen."""
READ_BYTES = 1 << 21
"""Layers of an entry that are all wanted are read together, up to this size: a layer of 512 tokens of an 8B
model is as large, and reads of a quarter of it reached half the rate of the disks seen."""
Tensors = dict[tuple[int, Part], torch.Tensor]


@dataclass(frozen=True)
class Load:
    """A read as it happened: layers first..last of an entry, bytes of keys and values, by which thread.

    `began` and `ended` are readings of `time.perf_counter()` in seconds, the copy to a GPU included.
    """

    stage: Literal["select", "fuse"]
    first: int
    last: int
    parts: tuple[Part, ...]
    bytes: int
    thread: str
    began: float
    ended: float


@dataclass
class _Job:
    future: Future[Tensors]
    at: list[tuple[str, int, Part]]
    buffers: list[torch.Tensor] = field(default_factory=list)
    tensors: Tensors | None = None
    """The future's result, once it was waited for."""


class Reads:
    """How a run reads its store: threads and buffers, shared by its requests.

    Without `overlap` a layer is read where it is needed and not before: the comparison that shows what
    reading ahead is worth. What lies in host memory already, unthrottled, is not sent through threads.
    """

    def __init__(self, store: Store, device: str, overlap: bool = True) -> None:
        self.store, self.device, self.overlap = store, device, overlap
        self.buffers = Buffers(pinned=device == "cuda")
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="read")
        self.copies: torch.cuda.Stream | None = None
        if device == "cuda":
            self.copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    @property
    def at_hand(self) -> bool:
        """Nothing to wait for: tensors in host memory that are computed on there."""
        return self.store.tier == "memory" and self.store.throttle is None and self.device == "cpu"

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown()


class Reader:
    """Reads for one measured request. What was read once stays with the request and is not read again.

    `bytes_read` counts bytes of cached keys and values asked for, `loads` tells when they came. An error
    in a reading thread is raised where its result is waited for. Use it as a context manager: at the end
    reads not begun are cancelled, those under way waited for, and buffers go back.
    """

    def __init__(self, reads: Reads, entries: Sequence[str], layers: int) -> None:
        """`entries` hold [S; C] in order; `layers` is the number of layers of the model."""
        self.reads, self.store, self.entries, self.layers = reads, reads.store, entries, layers
        self.stage: Literal["select", "fuse"] = "select"
        self.bytes_read = 0
        self.waited = 0.0
        """Seconds spent waiting for reads."""
        self.loads: list[Load] = []
        self._jobs: dict[tuple[str, int, Part], _Job] = {}
        self._open: dict[int, list[_Job]] = {}
        """What goes through threads, by its last layer."""
        self._fused_to: dict[str, int] = {}
        """For each entry, the layers that fusion has asked for: those before this one."""
        self._lock = threading.Lock()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        jobs = [job for some in self._open.values() for job in some]
        under_way = [job.future for job in jobs if not job.future.cancel()]
        wait(under_way)
        for job in jobs:
            self.reads.buffers.give(job.buffers)
        self._open, self._jobs = {}, {}

    @property
    def asked(self) -> frozenset[tuple[str, int, Part]]:
        """What was asked for and still is at hand: (entry, layer, part)."""
        return frozenset(self._jobs)

    # --- asking --------------------------------------------------------------------------------

    def want(self, key: str, layers: range, parts: Sequence[Part] = BOTH) -> None:
        """Begin to read neighbouring layers of an entry, unless it is done or under way."""
        for some, missing in self._missing(key, layers, parts):
            self._begin(key, some, missing)

    def ahead(self, keys: Sequence[str], layers: range, parts: Sequence[Part] = BOTH) -> None:
        """As `want` for several entries, in the order of layers; nothing where reading ahead is off."""
        if not self.reads.overlap:
            return
        group = {key: max(1, READ_BYTES // max(1, self.store.layer_bytes(key))) for key in set(keys)}
        for layer in layers:
            for key in keys:
                if (layer - layers.start) % group[key] == 0:
                    self.want(key, range(layer, min(layers.stop, layer + group[key])), parts)

    def _missing(
        self, key: str, layers: range, parts: Sequence[Part]
    ) -> Iterator[tuple[range, tuple[Part, ...]]]:
        """Neighbouring layers that lack the same parts."""
        begin, lacking = layers.start, None
        for layer in layers:
            here = tuple(part for part in parts if (key, layer, part) not in self._jobs)
            if here != lacking:
                if lacking:
                    yield range(begin, layer), lacking
                begin, lacking = layer, here
        if lacking:
            yield range(begin, layers.stop), lacking

    def _begin(self, key: str, layers: range, parts: tuple[Part, ...]) -> None:
        size = self.store.layer_bytes(key) * len(layers) * len(parts) // 2
        self.bytes_read += size
        job = _Job(Future(), [(key, layer, part) for layer in layers for part in parts])
        self._jobs |= dict.fromkeys(job.at, job)
        if self.reads.at_hand:
            job.future.set_result(self.store.read(key, layers, parts, self.reads.buffers.take))
        else:
            self._open.setdefault(layers[-1], []).append(job)
            job.future = self.reads.threads.submit(self._read, job, key, layers, parts, size, self.stage)

    def _read(
        self, job: _Job, key: str, layers: range, parts: tuple[Part, ...], size: int,
        stage: Literal["select", "fuse"],
    ) -> Tensors:  # fmt: skip
        """In a thread: the read, and the copy to the device."""

        def take(wanted: int) -> torch.Tensor:
            job.buffers.append(self.reads.buffers.take(wanted))
            return job.buffers[-1]

        began = time.perf_counter()
        tensors = self.store.read(key, layers, parts, take)
        if self.reads.copies is not None:
            with torch.cuda.stream(self.reads.copies):
                tensors = {at: t.to("cuda", non_blocking=True) for at, t in tensors.items()}
                self.reads.copies.synchronize()
        thread = threading.current_thread().name
        load = Load(stage, layers[0], layers[-1], parts, size, thread, began, time.perf_counter())
        with self._lock:
            self.loads.append(load)
        return tensors

    # --- getting -------------------------------------------------------------------------------

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One entry's keys before RoPE or values at a layer, [n, Hkv, D], on the engine's device."""
        self.want(key, range(layer, layer + 1), (part,))
        return self._arrived(key, layer, part)

    def _arrived(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """What was asked for, once it is there."""
        job = self._jobs[key, layer, part]
        if job.tensors is None:
            if not job.future.done():
                began = time.perf_counter()
                job.future.exception()  # waits, and leaves raising to the line below
                self.waited += time.perf_counter() - began
            job.tensors = job.future.result()
        tensor = job.tensors[layer, part]
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream())
        return tensor

    def parts(self, keys: Sequence[str], layer: int, part: Part) -> torch.Tensor:
        """Several entries' keys or values at a layer, concatenated."""
        for key in keys:
            self.want(key, range(layer, layer + 1), (part,))
        return torch.cat([self.part(key, layer, part) for key in keys])

    def layer(self, layer: int) -> list[KV]:
        """Keys before RoPE and values of all the request's entries at a layer, for fusion: layer after layer.

        Loads go on for the next `AHEAD` layers meanwhile; buffers of the layers before are used again.
        """
        self._recycle(layer)
        # With many layers a read, the next reads are asked for when these begin to be used.
        ahead = max(AHEAD, *self._together.values()) if self.reads.overlap else 0
        for one in range(layer, min(self.layers, layer + 1 + ahead)):
            for key, together in self._together.items():
                if self._fused_to.get(key, 0) <= one:
                    self._fused_to[key] = min(self.layers, one + together)
                    self.want(key, range(one, self._fused_to[key]))
        return [
            KV(self._arrived(key, layer, "keys"), self._arrived(key, layer, "values")) for key in self.entries
        ]

    @cached_property
    def _together(self) -> dict[str, int]:
        """How many layers of an entry a read for fusion brings: few large reads are faster than many small
        ones, but under a throttle, where they are not, more would hold back the first of them."""
        if not self.reads.overlap or self.store.throttle is not None:
            return dict.fromkeys(self.entries, 1)
        size = self.store.layer_bytes
        return {key: max(1, min(self.layers, READ_BYTES // max(1, size(key)))) for key in self.entries}

    def _recycle(self, layer: int) -> None:
        for last in [last for last in self._open if last < layer]:
            still = []
            for job in self._open.pop(last):
                if not job.future.done():
                    still.append(job)
                    continue
                for at in job.at:  # asked for again, it would be read again
                    del self._jobs[at]
                self.reads.buffers.give(job.buffers)
            if still:
                self._open[last] = still
