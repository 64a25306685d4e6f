"""Stores as safetensors files and back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from bench.errors import UserError
from bench.kv import Entry
from bench.store.disk import DiskStore
from bench.store.exchange import export_store, import_store, read_entry
from tests.store._entries import entry, file_of, flip, same


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    made = DiskStore(tmp_path / "store", model="m")
    made.put("a", entry(6))
    made.put("b", entry(9, torch.float32).packed(torch.tensor([7, 2])))
    made.put("none", Entry(*torch.zeros(2, 3, 0, 2, 4), torch.arange(0)))
    return made


def test_there_and_back(store: DiskStore, tmp_path: Path) -> None:
    assert export_store(store.folder, tmp_path / "out") == 3
    assert import_store(tmp_path / "out", tmp_path / "new") == 3
    new = DiskStore(tmp_path / "new", model="m")
    for key in ("a", "b", "none"):
        assert file_of(new, key).read_bytes() == file_of(store, key).read_bytes()
        old = read_entry(new, key)
        assert same(old.keys, read_entry(store, key).keys)
    assert new.positions("b").tolist() == [2, 7]


def test_other_tools_can_read_it(store: DiskStore, tmp_path: Path) -> None:
    export_store(store.folder, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.safetensors", "b.safetensors", "none.safetensors",
    ]  # fmt: skip
    tensors = load_file(tmp_path / "out" / "a.safetensors")
    assert set(tensors) == {"keys", "values", "positions"}
    assert same(tensors["values"], entry(6).values)


def test_a_damaged_entry_is_not_exported(store: DiskStore, tmp_path: Path) -> None:
    flip(file_of(store, "a"), store.header("a").offset(2, "values"))
    with pytest.raises(UserError, match=r"entry a: values of layer 2 .*delete .*a\.kv and export again"):
        export_store(store.folder, tmp_path / "out")


def test_what_changed_on_the_way_is_not_imported(store: DiskStore, tmp_path: Path) -> None:
    export_store(store.folder, tmp_path / "out")
    path = tmp_path / "out" / "a.safetensors"
    flip(path, path.stat().st_size - 3)
    with pytest.raises(UserError, match=r"a\.safetensors does not match its checksum"):
        import_store(tmp_path / "out", tmp_path / "new")
    assert "a" not in DiskStore(tmp_path / "new")


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", None])
def test_a_file_that_is_no_export(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.safetensors"
    if content is None:
        save_file({"weights": torch.zeros(2)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.safetensors is not an exported entry"):
        import_store(tmp_path, tmp_path / "new")


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    for work in (export_store, import_store):
        with pytest.raises(UserError, match="is not a folder"):
            work(tmp_path / "none", tmp_path / "out")


def test_an_export_that_cannot_be_written(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="choose another folder"):
        export_store(store.folder, tmp_path / "out")

    def full(_: object, path: Path, **__: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("bench.store.exchange.save_file", full)
    with pytest.raises(UserError, match=r"a\.safetensors could not be written: .*No space left"):
        export_store(store.folder, tmp_path / "full")
    assert list((tmp_path / "full").iterdir()) == []


def test_a_key_that_leads_elsewhere_is_not_imported(store: DiskStore, tmp_path: Path) -> None:
    export_store(store.folder, tmp_path / "out")
    path = tmp_path / "out" / "a.safetensors"
    with safe_open(path, framework="pt") as file:
        about = file.metadata() | {"key": "../../elsewhere"}
    save_file(load_file(path), path, metadata=about)
    with pytest.raises(UserError, match=r"'\.\./\.\./elsewhere' is no key"):
        import_store(tmp_path / "out", tmp_path / "new")
