"""Stores to and from safetensors files, one an entry, which other tools can read.

Tensors "keys" and "values" [L, n, Hkv, D] (keys before RoPE) and "positions" [n] int64; metadata "key",
"model", "dtype" and "checksum", the xxh3 of each of the three tensors' bytes in that order (hexadecimal,
separated by commas).
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry
from bench.store.disk import DiskStore
from bench.store.files import SUFFIX, TEMPORARY, mendable, write_entry
from bench.store.layout import PARTS, checksum, describe

EXCHANGED = ".safetensors"


def export_store(folder: Path, out: Path) -> int:
    """Write every entry of the store in `folder` to the folder `out`; how many.

    Each is checked on the way. Raises `UserError` where there is no store, an entry is damaged, or `out`
    cannot be written; files written before stay.
    """
    keys = _names(folder, SUFFIX)
    store = DiskStore(folder, recheck=1)
    for key in keys:
        try:
            export_entry(store, key, out / f"{key}{EXCHANGED}")
        except DamagedEntry as error:
            raise UserError(f"{error}; delete {folder / key}{SUFFIX} and export again") from error
    return len(keys)


def import_store(source: Path, folder: Path) -> int:
    """Put every safetensors file of `source` into the store in `folder`, made if need be; how many.

    Raises `UserError` for a file that is none of `export_store`'s, or no longer what it wrote.
    """
    DiskStore(folder)  # makes the folder
    names = _names(source, EXCHANGED)
    for name in names:
        import_entry(source / f"{name}{EXCHANGED}", folder)
    return len(names)


def export_entry(store: DiskStore, key: str, out: Path) -> None:
    """Write one entry as a safetensors file, whole or not at all. Raises `DamagedEntry` and `UserError`."""
    header, entry = store.header(key), read_entry(store, key)
    tensors = {"keys": entry.keys, "values": entry.values, "positions": entry.positions}
    about = {"key": key, "model": header.model, "dtype": header.dtype, "checksum": _sums(entry)}
    temporary = out.with_name(f"{out.name}{TEMPORARY}")
    with mendable(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file(tensors, temporary, metadata=about)
            temporary.replace(out)
        except SafetensorError as error:  # it wraps what the system said
            raise UserError(f"{out} could not be written: {error}; choose another folder") from error
        finally:
            temporary.unlink(missing_ok=True)


def import_entry(path: Path, folder: Path) -> str:
    """Put the entry in a safetensors file into the store in `folder`; its key. Raises `UserError`."""
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, str] = file.metadata() or {}
            entry = Entry(*(file.get_tensor(name) for name in ("keys", "values", "positions")))
        key, model, expected = about["key"], about["model"], about["checksum"]
        if not re.fullmatch(r"[\w-]+", key, re.ASCII):  # it becomes a file's name
            raise ValueError(f"{key!r} is no key")
        header = describe(key, model, entry)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is not an exported entry: {error}; export it again") from error
    if _sums(entry) != expected:
        raise UserError(f"{path} does not match its checksum; export it again")
    write_entry(folder, header, entry)
    return key


def read_entry(store: DiskStore, key: str) -> Entry:
    """An entry as it was put. Raises `DamagedEntry`."""
    layers = range(store.header(key).layers)
    keys, values = (torch.stack([store.part(key, layer, part) for layer in layers]) for part in PARTS)
    return Entry(keys, values, store.positions(key))


def _sums(entry: Entry) -> str:
    return ",".join(f"{checksum(tensor):016x}" for tensor in (entry.keys, entry.values, entry.positions))


def _names(folder: Path, suffix: str) -> list[str]:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name the one to read from")
    return sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))
