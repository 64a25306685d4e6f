"""A request's reads: counted once, ahead but not far, and an error in a thread reaches the request."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise

import pytest
import torch

from bench.kv import Entry
from bench.store import Part, Take
from bench.store import reader as reader_module
from bench.store.buffers import Buffers
from bench.store.memory import MemoryStore
from bench.store.reader import READ_BYTES, SLOWED_BYTES, Reader, Reads

LAYERS = 16
AHEAD = 2
"""Layers read ahead here, fewer than there are."""


class Remote(MemoryStore):
    """A store whose reads go through threads into buffers, are written down, and may be held up or fail."""

    tier = "remote"

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[str, range, tuple[Part, ...]]] = []
        self.open = threading.Event()
        self.open.set()
        self.error: BaseException | None = None

    def read(
        self, key: str, layers: range, parts: Sequence[Part], take: Take
    ) -> dict[tuple[int, Part], torch.Tensor]:
        self.begun.append((key, layers, tuple(parts)))
        assert self.open.wait(30)
        if self.error is not None:
            raise self.error
        found = super().read(key, layers, parts, take)
        for at, tensor in found.items():
            raw = tensor.reshape(-1).view(torch.uint8)
            buffer = take(-(-len(raw) // 4096) * 4096)[: len(raw)]
            buffer.copy_(raw)
            found[at] = buffer.view(tensor.dtype).view(tensor.shape)
        return found


def entry(n: int, seed: int) -> Entry:
    torch.manual_seed(seed)
    return Entry(torch.randn(LAYERS, n, 2, 4), torch.randn(LAYERS, n, 2, 4), torch.arange(n))


@pytest.fixture
def store() -> Remote:
    remote = Remote()
    remote.put("a", entry(6, 0))
    remote.put("b", entry(2, 1))
    return remote


def layers_begun(store: Remote) -> set[int]:
    return {layer for _, layers, _ in store.begun for layer in layers}


def test_layers_come_in_pieces_and_are_right(store: Remote) -> None:
    with Reader(Reads(store, "cpu"), ["a", "b", "a"], LAYERS) as reader:
        for layer in range(LAYERS):
            pieces = reader.layer(layer)
            assert [len(kv.keys) for kv in pieces] == [6, 2, 6]
            for key, kv in zip("aba", pieces, strict=True):
                assert torch.equal(kv.keys, store.part(key, layer, "keys"))
                assert torch.equal(kv.values, store.part(key, layer, "values"))
    assert sum(load.bytes for load in reader.loads) == reader.bytes_read == LAYERS * 8 * 2 * 4 * 4 * 2


@pytest.fixture
def middling(store: Remote, monkeypatch: pytest.MonkeyPatch) -> int:
    """Layers of a size at which one read may bring two of them, and few layers ahead; the bytes of one."""
    size = store.layer_bytes("a")
    monkeypatch.setattr(reader_module, "READ_BYTES", 2 * size)
    monkeypatch.setattr(reader_module, "AHEAD", AHEAD)
    return size


@pytest.mark.parametrize("layers", [1, 2, 7, 24, 61])
@pytest.mark.parametrize("slowed", ["no", "by the throttle", "by the kernel"])
@pytest.mark.parametrize("use", ["fusion", "a probe"])
def test_few_large_reads_but_a_layer_at_a_time_where_they_are_slowed(
    store: Remote, monkeypatch: pytest.MonkeyPatch, layers: int, slowed: str, use: str
) -> None:
    reads = Reads(store, "cpu")
    reads.kernel_slows = slowed == "by the kernel"
    monkeypatch.setattr(store, "throttle", object() if slowed == "by the throttle" else None)

    def sizes(one: int) -> list[int]:
        monkeypatch.setattr(store, "layer_bytes", lambda key: one)
        reader, asked = Reader(reads, ["a"], layers), list[range]()

        def begin(key: str, some: range, parts: tuple[Part, ...]) -> None:
            asked.append(some)
            reader._jobs |= {
                (key, layer, part): reader_module._Job(Future(), []) for layer in some for part in parts
            }

        monkeypatch.setattr(reader, "_begin", begin)
        monkeypatch.setattr(reader, "_arrived", lambda key, layer, part: torch.empty(0))
        for layer in range(layers):
            if use == "fusion":
                reader.layer(layer)
            else:
                reader.soon(["a"], layer, layers)
            assert asked[-1].stop > layer
        assert [i for some in asked for i in some] == [*range(layers)]
        return [len(some) for some in asked]

    for one in (1 << 10, SLOWED_BYTES, 1 << 18, READ_BYTES // 2, READ_BYTES, 2 * READ_BYTES):
        most = max(1, (READ_BYTES if slowed == "no" else SLOWED_BYTES) // one)
        *found, last = sizes(one)
        assert set(found) <= {most}
        assert last <= most


def test_loads_run_ahead_but_not_far(store: Remote, middling: int) -> None:
    with Reader(Reads(store, "cpu"), ["a", "b"], LAYERS) as reader:
        for layer in range(LAYERS):
            reader.layer(layer)
            furthest = max(at[1] for at in reader._jobs)
            # b's layers are a third of a's: six of them a read
            assert min(layer + AHEAD, LAYERS - 1) <= furthest <= layer + 2 * 6


def test_the_first_reads_of_fusion_begin_before_its_first_layer(store: Remote, middling: int) -> None:
    with Reader(Reads(store, "cpu"), ["a"], LAYERS) as reader:
        reader.begin_fusion()
        reader.part("a", 0, "keys")
        assert layers_begun(store) >= {0, 1}
        before = reader.bytes_read
        reader.layer(0)
        assert reader.bytes_read == before
    with Reader(Reads(store, "cpu", overlap=False), ["b"], LAYERS) as reader:
        reader.begin_fusion()
        assert not reader.bytes_read, "without overlap nothing is read before it is needed"


def test_without_overlap_nothing_is_read_before_it_is_needed(store: Remote) -> None:
    with Reader(Reads(store, "cpu", overlap=False), ["a", "b"], LAYERS) as reader:
        reader.ahead(["a", "b"], range(LAYERS))
        assert not store.begun
        reader.parts(["a"], 5, "keys")
        assert layers_begun(store) == {5}
        for layer in range(3):
            reader.layer(layer)
            assert layers_begun(store) == {5, *range(layer + 1)}


def test_what_was_read_is_not_read_again_and_counted_once(store: Remote) -> None:
    with Reader(Reads(store, "cpu"), ["a", "b"], LAYERS) as reader:
        one = 8 * 2 * 4 * 4  # keys of eight positions
        reader.parts(["a", "b"], 1, "keys")
        assert reader.bytes_read == one
        reader.want("a", range(0, 3))  # all of layers 0 and 2, the values of 1
        assert reader.bytes_read == one + (6 * 2 * 4 * 4) * 5
        reader.layer(1)
        asked = [
            (key, layer, part) for key, layers, parts in store.begun for layer in layers for part in parts
        ]
        assert len(asked) == len(set(asked))


def test_layers_of_a_small_entry_are_read_together(store: Remote) -> None:
    with Reader(Reads(store, "cpu"), ["a"], LAYERS) as reader:
        reader.ahead(["a"], range(LAYERS))
        reader.part("a", LAYERS - 1, "values")
        assert store.begun == [("a", range(LAYERS), ("keys", "values"))]


@pytest.mark.parametrize("error", [OSError("the cable is out"), SystemExit(3), MemoryError()])
def test_an_error_in_a_reading_thread_is_raised_where_its_result_is_needed(
    store: Remote, error: BaseException
) -> None:
    reads = Reads(store, "cpu")
    store.error = error
    with pytest.raises(type(error)), Reader(reads, ["a"], LAYERS) as reader:
        reader.layer(0)
    store.error = None
    with Reader(reads, ["a"], LAYERS) as reader:  # the threads go on
        assert torch.equal(reader.layer(0)[0].keys, store.part("a", 0, "keys"))


def test_leaving_waits_for_reads_under_way_and_drops_the_others(store: Remote) -> None:
    store.open.clear()
    reads = Reads(store, "cpu")
    reader = Reader(reads, ["a"], LAYERS)
    for layer in range(LAYERS):
        reader.want("a", range(layer, layer + 1))
    threading.Timer(0.05, store.open.set).start()
    reader.__exit__()
    assert len(store.begun) < LAYERS
    held = sum(map(len, reads.buffers._free.values()))
    assert held == 2 * len(store.begun), "every buffer is back"


def test_a_buffer_is_used_again_only_after_its_layer(store: Remote, middling: int) -> None:
    reads = Reads(store, "cpu")
    with Reader(reads, ["a", "b"], LAYERS) as reader:
        for layer in range(LAYERS):
            pieces = reader.layer(layer)
            for ahead in range(layer, min(LAYERS, layer + AHEAD + 1)):
                reader.part("a", ahead, "keys")  # all that may be in flight has come
            assert torch.equal(pieces[0].keys, store.part("a", layer, "keys"))
            assert torch.equal(pieces[1].values, store.part("b", layer, "values"))
    assert reads.buffers.allocated <= LAYERS * 4 * 4096 * 0.75, "less than all layers' buffers"


def test_loads_tell_stage_and_order(store: Remote) -> None:
    with Reader(Reads(store, "cpu"), ["a"], LAYERS) as reader:
        reader.part("a", 2, "keys")
        reader.stage = "fuse"
        for layer in range(LAYERS):
            reader.layer(layer)
    assert [load.stage for load in reader.loads].count("select") == 1
    assert all(load.began <= load.ended for load in reader.loads)
    fused = [load for load in reader.loads if "values" in load.parts]
    assert sorted(i for load in fused for i in range(load.first, load.last + 1)) == list(range(LAYERS))


@pytest.mark.parametrize("size", [4096, 5000, 65_536, 150_000, 1 << 20, 1 << 21, 3 << 20])
def test_buffers_are_aligned_apart_and_used_again(size: int) -> None:
    buffers = Buffers(pinned=False)
    some = [buffers.take(size) for _ in range(20)]
    assert all(buffer.data_ptr() % 4096 == 0 and len(buffer) >= size for buffer in some)
    begins = sorted(buffer.data_ptr() for buffer in some)
    assert all(after - before >= len(some[0]) for before, after in pairwise(begins)), "none overlaps another"
    for number, buffer in enumerate(some):
        buffer.fill_(number)
    assert [int(buffer[-1]) for buffer in some] == [*range(20)]
    before = buffers.allocated
    buffers.give(some)
    assert {buffer.data_ptr() for buffer in (buffers.take(size) for _ in range(20))} >= set(begins[:1])
    assert buffers.allocated == before
