"""Both tiers of the chunk store: what goes in comes out, damage is found, nothing half-written counts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry, Store, chunk_key, packed_key
from bench.store.disk import DiskStore
from bench.store.memory import MemoryStore
from bench.store.reader import Reader


def entry(n: int = 6, dtype: torch.dtype = torch.bfloat16) -> Entry:
    torch.manual_seed(n)
    return Entry(torch.randn(3, n, 2, 4).to(dtype), torch.randn(3, n, 2, 4).to(dtype), torch.arange(n))


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else DiskStore(tmp_path / "store")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_goes_in_comes_out(store: Store, dtype: torch.dtype) -> None:
    e = entry(dtype=dtype)
    assert "a" not in store
    store.put("a", e)
    assert "a" in store
    for layer in range(3):
        assert torch.equal(store.part("a", layer, "keys"), e.keys[layer])
        assert torch.equal(store.part("a", layer, "values"), e.values[layer])
    assert torch.equal(store.positions("a"), e.positions)
    store.drop("a")
    assert "a" not in store


def test_a_reader_counts_each_part_once(store: Store) -> None:
    store.put("a", entry(6))
    store.put("b", entry(2))
    reader = Reader(store, ["a", "b"], "cpu")
    kv = reader.layer(1)
    assert kv.keys.shape == (8, 2, 4)
    one = 8 * 2 * 4 * 2  # eight positions, bf16
    assert reader.bytes_read == 2 * one
    reader.layer(1)
    assert reader.bytes_read == 2 * one
    reader.part("a", 0, "keys")
    assert reader.bytes_read == 2 * one + 6 * 2 * 4 * 2


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


def test_damage_is_found(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.put("a", entry(dtype=torch.float32))
    path = next(tmp_path.glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)
    parts = [(layer, part) for layer in range(3) for part in ("keys", "values")]

    def damaged(layer: int, part: str) -> bool:
        try:
            store.part("a", layer, part)  # type: ignore[arg-type]
        except DamagedEntry:
            return True
        return False

    assert sum(damaged(*at) for at in parts) == 1
    path.write_bytes(content[:100])
    with pytest.raises(DamagedEntry):
        store.part("a", 0, "keys")


def test_what_a_crash_leaves_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / "a-123.tmp").write_bytes(b"half")
    store = DiskStore(tmp_path)
    assert "a" not in store
    assert not list(tmp_path.glob("*.tmp"))


def test_a_full_disk_gives_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bench.store.disk.save_file", full)
    with pytest.raises(UserError, match="no space left on the disk"):
        store.put("a", entry())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another folder"):
        DiskStore(tmp_path / "file" / "store")


def test_cooling_keeps_the_content(store: Store) -> None:
    store.put("a", entry())
    store.cool()
    assert torch.equal(store.part("a", 2, "keys"), entry().keys[2])
