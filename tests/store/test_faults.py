"""What may go wrong with the disk tier: damage is found, users get one line, nothing half-written counts."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry
from bench.store.buffers import PAGE, aligned
from bench.store.disk import DiskStore
from bench.store.files import SUFFIX
from tests.store._entries import LAYERS, PLACES, entry, file_of, flip, rewrite_header, same


@pytest.fixture(params=[True, False], ids=["direct", "page cache"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DiskStore:
    made = DiskStore(tmp_path / "store", model="m", dtype="torch.bfloat16", direct=request.param)
    made.put("a", entry())
    return made


def again(store: DiskStore, **other: Any) -> DiskStore:
    """The store as another process finds it."""
    return DiskStore(store.folder, **{"model": "m", "dtype": "bfloat16", "direct": store.direct} | other)


def is_rebuilt(store: DiskStore) -> bool:
    """Whether dropping and putting it again mends an entry, as the runner does."""
    store.drop("a")
    assert "a" not in store
    store.put("a", entry())
    return all(same(store.part("a", layer, part), getattr(entry(), part)[layer]) for layer, part in PLACES)


@pytest.mark.parametrize("left", [1, PAGE - 1, PAGE, PAGE + 7])
def test_a_truncated_file(store: DiskStore, left: int) -> None:
    os.truncate(file_of(store, "a"), left)
    for reader in (again(store), store):
        with pytest.raises(DamagedEntry, match=f"the file has {left} bytes"):
            reader.part("a", LAYERS - 1, "values")
    assert is_rebuilt(store)


def test_a_file_truncated_while_it_is_open(store: DiskStore) -> None:
    store.positions("a")
    os.truncate(file_of(store, "a"), PAGE)
    with pytest.raises(DamagedEntry, match="ends too early"):
        store.read("a", range(LAYERS), ["keys", "values"], aligned)
    assert is_rebuilt(store)


@pytest.mark.parametrize("at", PLACES)
def test_a_flipped_bit_damages_the_part_it_is_in(store: DiskStore, at: Any) -> None:
    flip(file_of(store, "a"), store.header("a").offset(*at) + 5)
    reader = again(store)
    for layer, part in PLACES:
        if (layer, part) == at:
            with pytest.raises(DamagedEntry, match=f"{part} of layer {layer} do not match"):
                reader.part("a", layer, part)
        else:
            reader.part("a", layer, part)
    with pytest.raises(DamagedEntry), again(store).hold(["a"]):
        pass
    assert is_rebuilt(store)


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 25, 100, 200])
def test_a_flipped_bit_in_the_header(store: DiskStore, offset: int) -> None:
    flip(file_of(store, "a"), offset)
    with pytest.raises(DamagedEntry):
        again(store).positions("a")
    assert is_rebuilt(store)


def test_a_bit_that_flips_later_is_found_by_the_sample(store: DiskStore) -> None:
    lucky, careful, sampling = (again(store, recheck=share) for share in (0, 1, 0.1))
    for reader in (lucky, careful, sampling):
        reader.part("a", 0, "keys")
    flip(file_of(store, "a"), store.header("a").offset(0, "keys"))
    lucky.part("a", 0, "keys")
    with pytest.raises(DamagedEntry):
        careful.part("a", 0, "keys")

    def found() -> bool:
        try:
            sampling.part("a", 0, "keys")
        except DamagedEntry:
            return True
        return False

    assert 0 < sum(found() for _ in range(1000)) < 500


def test_held_entries_were_checked_before(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = again(store, recheck=0)
    with reader.hold(["a"]):
        monkeypatch.setattr("bench.store.disk.checksum", lambda _: pytest.fail("checked again"))
        reader.read("a", range(LAYERS), ["keys", "values"], aligned)


def test_a_missing_layer(store: DiskStore) -> None:
    sums = store.header("a").sums
    path = file_of(store, "a")
    store.put("a", Entry(entry().keys[:2], entry().values[:2], entry().positions))
    two = again(store)
    two.part("a", 1, "keys")
    with pytest.raises(DamagedEntry, match="layer 2 is missing, it has 2 layers"):
        two.read("a", range(LAYERS), ["keys"], aligned)
    store.put("a", entry())
    rewrite_header(path, sums=tuple(reversed(sums)))  # the header contradicts the content
    with pytest.raises(DamagedEntry, match="do not match their checksum"):
        again(store).part("a", 0, "keys")
    assert is_rebuilt(store)


def test_a_wrong_dtype_in_the_header(store: DiskStore) -> None:
    rewrite_header(file_of(store, "a"), dtype="float16")
    with pytest.raises(DamagedEntry, match="dtype 'float16', not 'bfloat16'"):
        again(store).part("a", 0, "keys")
    assert is_rebuilt(store)


def test_a_dtype_of_another_size_in_the_header(store: DiskStore) -> None:
    rewrite_header(file_of(store, "a"), dtype="float32", n=600, positions=((0, 600),))
    with pytest.raises(DamagedEntry, match="the file has 8192 bytes of"):
        again(store, dtype="").part("a", 0, "keys")
    rewrite_header(file_of(store, "a"), dtype="float99")
    with pytest.raises(DamagedEntry, match="contradicts itself"):
        again(store, dtype="").part("a", 0, "keys")


def test_a_wrong_model_in_the_header(store: DiskStore) -> None:
    with pytest.raises(DamagedEntry, match="model 'm', not 'other'"):
        again(store, model="other").part("a", 0, "keys")
    rewrite_header(file_of(store, "a"), model="z")
    with pytest.raises(DamagedEntry, match="model 'z', not 'm'"):
        again(store).positions("a")
    assert is_rebuilt(store)


def test_a_file_under_another_entrys_name(store: DiskStore) -> None:
    shutil.copy(file_of(store, "a"), file_of(store, "b"))
    with pytest.raises(DamagedEntry, match="that of entry a"):
        store.positions("b")


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"x" * 2 * PAGE, bytes(2 * PAGE)], ids=len)
def test_a_file_without_sense(store: DiskStore, content: bytes) -> None:
    file_of(store, "a").write_bytes(content)
    for ask in (again(store).positions, again(store).layer_bytes):
        with pytest.raises(DamagedEntry):
            ask("a")
    assert is_rebuilt(store)


def test_a_format_of_another_version(store: DiskStore) -> None:
    path = file_of(store, "a")
    content = bytearray(path.read_bytes())
    content[4] += 1
    path.write_bytes(content)
    with pytest.raises(DamagedEntry, match="format version 2, this is version 1"):
        again(store).positions("a")


def test_a_disk_that_cannot_read(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.positions("a")

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("bench.store.files.os.preadv", broken)
    with pytest.raises(DamagedEntry, match="input/output error"):
        store.part("a", 0, "keys")


def test_a_store_deleted_in_the_middle_of_a_run(store: DiskStore) -> None:
    shutil.rmtree(store.folder)
    assert "a" not in store
    with pytest.raises(DamagedEntry, match="was it deleted"):
        store.read("a", range(LAYERS), ["keys"], aligned)
    assert is_rebuilt(store)


def test_a_store_deleted_under_a_request(store: DiskStore) -> None:
    with store.hold(["a"]):
        shutil.rmtree(store.folder)
        assert same(store.part("a", 1, "values"), entry().values[1])
    store.cool()
    assert is_rebuilt(store)


def fail(monkeypatch: pytest.MonkeyPatch, function: str, code: int, after: int = 0) -> None:
    """Let a function of `os` fail with an error, from call `after` on."""
    plain, calls = getattr(os, function), [0]

    def failing(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] > after:
            raise OSError(code, os.strerror(code))
        return plain(*arguments, **named)

    monkeypatch.setattr(f"bench.store.files.os.{function}", failing)


@pytest.mark.parametrize(("function", "after"), [("write", 0), ("write", 3), ("fsync", 0), ("ftruncate", 0)])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, function: str, after: int, code: int
) -> None:
    with monkeypatch.context() as patch:
        fail(patch, function, code, after)
        with pytest.raises(UserError, match=r"chunk store .*store: .*(no space|quota).*free some"):
            store.put("b", entry())
    assert [path.name for path in store.folder.iterdir()] == [f"a{SUFFIX}"]
    store.put("b", entry())


def test_permission_denied(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Denied by patching: a superuser is denied nothing."""
    fail(monkeypatch, "open", errno.EACCES)
    with pytest.raises(UserError, match="permission denied; make it readable and writable"):
        store.put("b", entry())
    with pytest.raises(UserError, match="permission denied; make it readable and writable"):
        again(store)
    with pytest.raises(UserError, match="permission denied on entry a; make it readable"):
        again_open(store)


def again_open(store: DiskStore) -> None:
    store._open.clear()
    store.positions("a")


@pytest.mark.skipif(os.geteuid() == 0, reason="a superuser is denied nothing")
def test_permission_really_denied(store: DiskStore) -> None:
    store.folder.chmod(0o500)
    try:
        with pytest.raises(UserError, match="permission denied"):
            store.put("b", entry())
    finally:
        store.folder.chmod(0o700)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(UserError, match="choose another folder"):
            DiskStore(folder)


def test_errors_nobody_expected_keep_their_own(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "write", errno.EFBIG)
    with pytest.raises(OSError, match="File too large"):
        store.put("b", entry())
    assert "b" not in store


def test_an_entry_of_zero_positions(store: DiskStore) -> None:
    none = Entry(*torch.zeros(2, LAYERS, 0, 2, 4, dtype=torch.bfloat16), torch.arange(0))
    store.put("none", none)
    reader = again(store)
    assert reader.layer_bytes("none") == 0
    assert reader.positions("none").shape == (0,)
    with reader.hold(["none"]):
        found = reader.read(
            "none", range(LAYERS), ["keys"], lambda _: pytest.fail("there is nothing to read")
        )
    assert all(same(tensor, none.keys[0]) for tensor in found.values())


def test_damage_can_be_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(DamagedEntry("k", "why")))
    assert (error.key, error.why, str(error)) == ("k", "why", "chunk store entry k: why")
