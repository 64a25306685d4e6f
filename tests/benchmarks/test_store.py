"""The disk tier beside what the disk can do: `dd iflag=direct` of the same bytes; checksums; opening.

Run with `make bench`; times are compared, never asserted. The target is 0.8 of dd's rate. dd and the store
take turns, since a disk's rate changes from one minute to the next.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.kv import Entry
from bench.store import Part
from bench.store.buffers import aligned
from bench.store.disk import DiskStore
from bench.store.files import SUFFIX
from bench.store.layout import checksum
from bench.store.reader import Reader, Reads

CHUNKS = 20
BOTH: tuple[Part, ...] = ("keys", "values")
SHAPES = {
    "24 layers, 2 KV heads of 64, 128 tokens": (24, 2, 64, 128),
    "24 layers, 2 KV heads of 64, 512 tokens": (24, 2, 64, 512),
    "28 layers, 8 KV heads of 128, 512 tokens": (28, 8, 128, 512),
}
"""Qwen2.5-Coder-0.5B with the default and the paper's chunks, and Llama-3.1-8B's heads."""


@dataclass
class OnDisk:
    """A store filled with a request's chunks, and all of them in one file for dd."""

    store: DiskStore
    whole: Path
    layers: int

    @property
    def bytes(self) -> int:
        return self.whole.stat().st_size

    def dd(self) -> None:
        """Everything, as fast as one sequential direct reader can (4 MiB a read)."""
        command = ["dd", f"if={self.whole}", "of=/dev/null", "iflag=direct", "bs=4M", "status=none"]
        subprocess.run(command, check=True)

    def read(self, threads: int, together: int) -> None:
        """Everything, `together` layers a read, in the order of layers."""
        own = threading.local()

        def take(size: int) -> torch.Tensor:
            if getattr(own, "size", 0) < size:
                own.buffer, own.size = aligned(size), size
            buffer: torch.Tensor = own.buffer
            return buffer

        def one(job: tuple[int, int]) -> None:
            first, chunk = job
            layers = range(first, min(self.layers, first + together))
            self.store.read(f"{chunk}", layers, BOTH, take)

        jobs = [(first, chunk) for first in range(0, self.layers, together) for chunk in range(CHUNKS)]
        self.store.cool()
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(one, jobs):
                pass


def folder_on_disk() -> tempfile.TemporaryDirectory[str]:
    """A folder in the repository's build folder: that of temporary files may be in memory."""
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="store-", dir=build)


@pytest.fixture(scope="module", params=SHAPES)
def on_disk(request: pytest.FixtureRequest) -> Iterator[OnDisk]:
    layers, heads, size, tokens = SHAPES[request.param]
    with folder_on_disk() as folder:
        store = DiskStore(Path(folder))
        for chunk in range(CHUNKS):
            values = torch.randn(2, layers, tokens, heads, size).bfloat16()
            store.put(f"{chunk}", Entry(values[0], values[1], torch.arange(tokens)))
        with (Path(folder) / "whole").open("wb") as whole:
            for chunk in range(CHUNKS):
                whole.write((store.folder / f"{chunk}{SUFFIX}").read_bytes())
        subprocess.run(["sync", whole.name], check=True)
        with store.hold(f"{chunk}" for chunk in range(CHUNKS)):
            yield OnDisk(store, Path(whole.name), layers)


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def beside_dd(benchmark: Any, on_disk: OnDisk, read: Callable[[], None], rounds: int) -> None:
    """dd and a way of reading in turns; the ratio of their rates goes to the benchmark's record."""
    benchmark.group = f"a request's chunks, {on_disk.bytes / 1e9:.2f} GB, {on_disk.store.how}"
    dd: list[float] = []
    store: list[float] = []

    def both() -> None:
        dd.append(seconds(on_disk.dd))
        store.append(seconds(read))

    benchmark.pedantic(both, rounds=rounds, warmup_rounds=1)
    del dd[0], store[0]  # the warm-up
    gb = on_disk.bytes / 1e9
    ratio = statistics.median(d / s for d, s in zip(dd, store, strict=True))
    benchmark.extra_info |= {
        "dd GB/s": round(gb / statistics.median(dd), 2),
        "store GB/s": round(gb / statistics.median(store), 2),
        "store / dd": round(ratio, 2),
    }
    print(f"\n{benchmark.name}, {gb:.2f} GB: {benchmark.extra_info}")


def test_a_request_beside_dd(benchmark: Any, on_disk: OnDisk) -> None:
    """All layers of all chunks as fusion asks for them: layer by layer, a few of them ahead."""
    chunks = [f"{chunk}" for chunk in range(CHUNKS)]
    with contextlib.closing(Reads(on_disk.store, "cpu")) as reads:

        def read() -> None:
            on_disk.store.cool()
            with Reader(reads, chunks, on_disk.layers) as reader:
                for layer in range(on_disk.layers):
                    reader.layer(layer)

        beside_dd(benchmark, on_disk, read, rounds=15)


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("threads", [1, 2, 4, 8])
def test_reading_beside_dd(benchmark: Any, on_disk: OnDisk, threads: int, together: int) -> None:
    """The store alone, `together` layers a read."""
    beside_dd(benchmark, on_disk, lambda: on_disk.read(threads, together), rounds=5)


@pytest.mark.parametrize("recheck", [0.0, 0.1, 1.0])
def test_checksums(benchmark: Any, on_disk: OnDisk, recheck: float) -> None:
    benchmark.group = f"checksums of a share, {on_disk.bytes / 1e9:.2f} GB"
    on_disk.store.recheck = recheck
    benchmark.pedantic(lambda: on_disk.read(4, 1), rounds=7, warmup_rounds=1)


@pytest.mark.parametrize("kib", [128, 1024, 65536])
def test_checksum_alone(benchmark: Any, kib: int) -> None:
    benchmark.group = "xxh3 of memory that is in no cache, 256 MiB"
    pieces = torch.randint(0, 255, (256 * 1024 // kib, kib << 10), dtype=torch.uint8)
    benchmark.pedantic(lambda: [checksum(piece) for piece in pieces], rounds=7, warmup_rounds=1)


def test_opening_ten_thousand_entries(benchmark: Any) -> None:
    """Opening a store reads no entry, so it must not grow with their number."""
    with folder_on_disk() as folder:
        store = DiskStore(Path(folder))
        store.put("0", Entry(*torch.zeros(2, 1, 1, 1, 1), torch.arange(1)))
        content = (store.folder / f"0{SUFFIX}").read_bytes()
        for i in range(1, 10_000):
            (store.folder / f"{i}{SUFFIX}").write_bytes(content)

        def open_and_look() -> None:
            assert "9999" in DiskStore(Path(folder))

        benchmark.pedantic(open_and_look, rounds=5)
