"""Both tiers of the chunk store: what goes in comes out, whatever is asked for and however it is read."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry, Part, Store, chunk_key, packed_key
from bench.store.buffers import PAGE, aligned
from bench.store.disk import DiskStore
from bench.store.layout import Header, describe
from bench.store.memory import MemoryStore
from bench.store.throttle import Throttle
from tests.store._entries import entry, file_of, same

PARTS: tuple[Part, ...] = ("keys", "values")


@pytest.fixture(params=["memory", "direct", "page cache"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    made = DiskStore(tmp_path / "store", direct=request.param == "direct")
    if request.param == "direct" and not made.direct:
        pytest.skip("the file system of temporary folders has no direct reads")
    return made


@pytest.fixture(scope="module")
def tiers() -> Iterator[list[Store]]:
    with tempfile.TemporaryDirectory() as folder:
        disk = [DiskStore(Path(folder), direct=direct) for direct in (True, False)]
        yield [MemoryStore(), *disk]


entries = st.builds(
    lambda layers, n, heads, size, dtype, seed: Entry(
        *torch.randn(2, layers, n, heads, size, generator=torch.Generator().manual_seed(seed)).to(dtype),
        torch.randperm(3 * n, generator=torch.Generator().manual_seed(seed))[:n],
    ),
    st.integers(1, 5), st.integers(0, 40), st.integers(1, 8), st.sampled_from([1, 3, 64, 128]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), st.integers(0, 9),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    e=entries, bounds=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    parts=st.sampled_from([PARTS, ("keys",), ("values",), ("values", "keys")]),
    rate=st.sampled_from([None, 1e12]),
)  # fmt: skip
def test_any_range_of_any_entry(
    tiers: list[Store], e: Entry, bounds: tuple[int, int], parts: tuple[Part, ...], rate: float | None
) -> None:
    layers = range(min(min(bounds), len(e.keys)), min(max(bounds), len(e.keys)))
    for store in tiers:
        store.put("a", e)
        store.throttle = rate and Throttle(rate)
        found = store.read("a", layers, parts, aligned)
        assert set(found) == {(layer, part) for layer in layers for part in parts}
        assert all(same(found[layer, part], getattr(e, part)[layer]) for layer, part in found)
        assert same(store.positions("a"), e.positions)
        assert store.layer_bytes("a") == e.keys[0].nbytes + e.values[0].nbytes
        assert all(same(store.part("a", layer, "values"), e.values[layer]) for layer in range(len(e.keys)))


def test_there_and_gone(store: Store) -> None:
    assert "a" not in store
    store.put("a", entry())
    assert "a" in store
    store.drop("a")
    store.drop("a")
    assert "a" not in store
    for ask in (store.positions, store.layer_bytes, lambda key: store.part(key, 0, "keys")):
        with pytest.raises(DamagedEntry, match="not in the store"):
            ask("a")
    with pytest.raises(DamagedEntry), store.hold(["a"]):
        pass


def test_what_is_put_again_is_read_anew(store: Store) -> None:
    store.put("a", entry(6))
    assert len(store.positions("a")) == 6
    store.put("a", entry(5))
    assert same(store.part("a", 0, "keys"), entry(5).keys[0])


def test_tensors_on_disk_are_views_of_the_buffers_given(tmp_path: Path) -> None:
    store, given_out = DiskStore(tmp_path), []
    store.put("a", entry())

    def take(size: int) -> torch.Tensor:
        given_out.append(aligned(size + PAGE))  # a buffer may be larger than asked for
        return given_out[-1]

    found = store.read("a", range(3), PARTS, take)
    assert len(given_out) == 1  # small layers are one read
    storages = {tensor.untyped_storage().data_ptr() for tensor in found.values()}
    assert storages == {given_out[0].untyped_storage().data_ptr()}


def test_a_buffer_off_the_page_is_refused(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.put("a", entry())
    with pytest.raises(ValueError, match="`take` gave"):
        store.read("a", range(1), PARTS, lambda size: aligned(size + PAGE)[1:])
    with pytest.raises(ValueError, match="neighbouring"):
        store.read("a", range(0, 3, 2), PARTS, aligned)


def header(n: int) -> Header:
    e = Entry(*torch.zeros(2, 24, n, 2, 64, dtype=torch.bfloat16), torch.arange(n))
    return describe("k", "m", e)


def test_a_layer_is_one_read_and_so_is_a_range() -> None:
    big = header(512)
    one = big.extents(range(7, 8), PARTS)
    assert [(x.end - x.start) for x in one] == [2 * big.part_bytes]  # nothing more than the layer
    assert len(big.extents(range(3, 9), PARTS)) == 1
    keys = big.extents(range(3, 5), ["keys"])
    assert [(x.end - x.start) for x in keys] == [big.part_bytes] * 2


def test_small_layers_are_packed_and_read_together() -> None:
    small = header(5)
    assert small.file_bytes < 24 * 2 * small.part_bytes + 3 * PAGE
    assert len(small.extents(range(24), ["keys"])) == 1


def test_the_throttle_counts_what_the_device_reads_and_nothing_else(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, throttle=Throttle(1e12))
    store.put("a", entry())
    assert store.throttle is not None
    store.positions("a")
    store.part("a", 0, "keys")
    with store.hold(["a"]):
        assert store.throttle.delivered == 0
    store.read("a", range(1), ["keys"], aligned)
    assert store.throttle.delivered == PAGE
    memory = MemoryStore(Throttle(1e12))
    memory.put("a", entry())
    memory.read("a", range(2), ["keys"], aligned)
    assert memory.throttle is not None
    assert memory.throttle.delivered == 2 * entry().keys[0].nbytes


def test_cooling_keeps_the_content(store: Store) -> None:
    store.put("a", entry())
    store.part("a", 0, "keys")
    store.cool()
    assert same(store.part("a", 2, "keys"), entry().keys[2])


def test_cooling_drops_the_pages_only_where_reads_are_not_direct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[int] = []
    for direct in (True, False):
        store = DiskStore(tmp_path, direct=direct)
        store.put("a", entry())
        store.put("b", entry())
        store.part("a", 0, "keys")
        store.cool()
        store.part("a", 0, "keys")
        with monkeypatch.context() as patch:
            patch.setattr("bench.store.files.os.posix_fadvise", lambda fd, *_: dropped.append(fd))
            store.cool()
        assert len(dropped) == (0 if store.direct else 1)  # only what was read since


def test_a_file_system_without_direct_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return plain(path, flags, mode)

    monkeypatch.setattr("bench.store.files.os.open", refuse)
    store = DiskStore(tmp_path)
    assert not store.direct
    assert store.how == "page cache dropped before each request"
    store.put("a", entry())
    assert same(store.part("a", 1, "keys"), entry().keys[1])


def test_entries_kept_open_are_few_and_all_can_be_read(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store._most_open = 3
    for i in range(8):
        store.put(f"{i}", entry(i + 1))
    with store.hold(["0", "1"]):
        for i in range(8):
            assert len(store.positions(f"{i}")) == i + 1
        assert set(store._open) == {"0", "1", "7"}
        first = store._open["0"]
    for i in range(2, 8):
        store.positions(f"{i}")
    assert "0" not in store._open
    assert same(first.read_pages(0, PAGE), first.read_pages(0, PAGE))  # who uses it keeps it open


def test_packed_positions_are_sorted_and_keep_their_place() -> None:
    e = entry(6)
    packed = e.packed(torch.tensor([4, 1]))
    assert packed.positions.tolist() == [1, 4]
    assert torch.equal(packed.keys, e.keys[:, [1, 4]])


def test_keys_depend_on_everything_that_decides_the_cache() -> None:
    keys = {
        chunk_key("m", "bf16", (), (1, 2, 3)), chunk_key("n", "bf16", (), (1, 2, 3)),
        chunk_key("m", "fp32", (), (1, 2, 3)), chunk_key("m", "bf16", (1,), (2, 3)),
        chunk_key("m", "bf16", (), (1, 2)), packed_key("m", "x"), packed_key("m", "y"),
    }  # fmt: skip
    assert len(keys) == 7


def test_an_entry_must_fit_together(tmp_path: Path) -> None:
    store, e = DiskStore(tmp_path), entry()
    for wrong in (
        Entry(e.keys, e.values[:, :5], e.positions),
        Entry(e.keys, e.values, e.positions[:5]),
        Entry(e.keys.double(), e.values.double(), e.positions),
    ):
        with pytest.raises(ValueError, match=r"entry|positions"):
            store.put("a", wrong)
    assert "a" not in store


# --- the size limit -----------------------------------------------------------------------------


def limited(folder: Path, entries: int) -> DiskStore:
    """A store with room for a number of entries of `entry()`'s size, used in order from 0 on."""
    store = DiskStore(folder, limit_bytes=entries * 2 * PAGE)
    for i in range(entries):
        store.put(f"{i}", entry())
        os.utime(file_of(store, f"{i}"), (i, i))
    return store


def test_the_least_recently_used_goes(tmp_path: Path) -> None:
    store = limited(tmp_path, 3)
    store.positions("0")  # opened, so used now
    store.put("3", entry())
    assert [f"{i}" in store for i in range(4)] == [True, False, True, True]


def test_a_use_is_noted_at_most_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = limited(tmp_path, 1), [1000.0]
    monkeypatch.setattr("bench.store.disk.time.monotonic", lambda: now[0])
    path = file_of(store, "0")
    for later, noted in ((0, True), (59, False), (2, True)):
        os.utime(path, (1, 1))
        now[0] += later
        store.part("0", 0, "keys")
        assert (path.stat().st_mtime > 1) == noted


def test_what_is_held_stays(tmp_path: Path) -> None:
    store = limited(tmp_path, 2)
    with store.hold(["0", "1"]), store.hold(["1"]):
        store.put("2", entry())
        assert all(key in store for key in "012")  # over the limit for as long as it is held
    store.put("3", entry())
    assert sum(f"{i}" in store for i in range(4)) == 2
    assert "3" in store


def test_a_limit_below_one_entry_is_refused_and_evicts_nothing(tmp_path: Path) -> None:
    store = limited(tmp_path, 1)
    with pytest.raises(UserError, match="less than one entry"):
        store.put("big", entry(600))
    assert "0" in store
    assert "big" not in store


def test_a_lock_nobody_lets_go_of_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import filelock

    from bench.store import evict

    store = limited(tmp_path, 1)
    monkeypatch.setattr(evict, "WAIT_S", 0)
    with filelock.FileLock(tmp_path / evict.LOCK), pytest.raises(UserError, match="another process"):
        store.put("1", entry())
