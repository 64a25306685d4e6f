"""One request's reads of the chunk store: ahead of their use, by a pool of threads, counted and stamped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

import torch

from bench.kv import KV, Entry
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
SLOWED_BYTES = 1 << 16
"""The same under a throttle, where large reads are no faster and would hold back their first layer: only
layers so small that whole pages would be mostly padding go together."""

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

    def __init__(
        self, store: Store, device: str, overlap: bool = True, buffers: Buffers | None = None
    ) -> None:
        """`buffers` may be those of earlier reads, so that they are made and touched once."""
        self.store, self.device, self.overlap = store, device, overlap
        self.buffers = Buffers(pinned=device == "cuda") if buffers is None else buffers
        self.resident: dict[str, Entry] = {}
        """Entries on the device already: no read, no bytes. S, which is at hand for full prefill too."""
        self.kernel_slows = False
        """Whether the kernel slows reads, in place of the store's own throttle."""
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="read")
        self.copies: torch.cuda.Stream | None = None
        if device == "cuda":
            self.copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    @property
    def at_hand(self) -> bool:
        """Nothing to wait for: tensors in host memory that are computed on there."""
        return self.store.tier == "memory" and self.store.throttle is None and self.device == "cpu"

    @property
    def slowed(self) -> bool:
        """Whether reads are made slower than the device is."""
        return self.kernel_slows or self.store.throttle is not None

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
        self._groups: dict[str, int] = {}
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

    def ahead(
        self, keys: Sequence[str], layers: range, parts: Sequence[Part] = BOTH, until: int | None = None
    ) -> None:
        """As `want` for several entries, in the order of layers; nothing where reading ahead is off.

        Neighbouring layers are read together (`_group`), also beyond `layers` but not from `until` on.
        """
        if not self.reads.overlap:
            return
        stop = layers.stop if until is None else until
        for layer in layers:
            for key in keys:
                if any((key, layer, part) not in self._jobs for part in parts):
                    self.want(key, range(layer, min(stop, layer + self._group(key))), parts)

    def soon(self, keys: Sequence[str], layer: int, stop: int) -> None:
        """Read on for who uses layer after layer up to `stop` and is at `layer`: `AHEAD` layers, or, where
        a read brings more, the next read of each entry."""
        far = max([AHEAD, *map(self._group, keys)])
        self.ahead(keys, range(layer, min(stop, layer + 1 + far)), until=stop)

    def begin_fusion(self) -> None:
        """The positions are known: the first layers' reads begin, before the layers themselves."""
        self.stage = "fuse"
        self.soon(self.entries, 0, self.layers)

    def _group(self, key: str) -> int:
        """How many neighbouring layers of an entry are read together."""
        if key not in self._groups:
            most = SLOWED_BYTES if self.reads.slowed else READ_BYTES
            self._groups[key] = max(1, min(self.layers, most // max(1, self.store.layer_bytes(key))))
        return self._groups[key]

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
        job = _Job(Future(), [(key, layer, part) for layer in layers for part in parts])
        self._jobs |= dict.fromkeys(job.at, job)
        here = self.reads.resident.get(key)
        if here is not None:
            job.future.set_result({(at, part): getattr(here, part)[at] for _, at, part in job.at})
            return
        size = self.store.layer_bytes(key) * len(layers) * len(parts) // 2
        self.bytes_read += size
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
        self.soon(self.entries, layer, self.layers)
        for key in self.entries:
            self.want(key, range(layer, layer + 1))
        return [
            KV(self._arrived(key, layer, "keys"), self._arrived(key, layer, "values")) for key in self.entries
        ]

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
