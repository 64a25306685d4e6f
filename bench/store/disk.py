"""The disk tier: one safetensors file an entry, written atomically, checked by layer."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry, Part


def _checksum(tensor: torch.Tensor) -> str:
    return xxhash.xxh3_64_hexdigest(tensor.contiguous().view(torch.uint8).numpy().data)


class DiskStore:
    """Entries under a folder. Before each measured request their pages leave the page cache.

    Raises `UserError` where the folder cannot be written or the disk is full; a half-written entry
    never gets an entry's name.
    """

    tier = "disk"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"chunk store {folder}: {error.strerror}; choose another folder") from error
        for stale in folder.glob("*.tmp"):
            stale.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def put(self, key: str, entry: Entry) -> None:
        """Write to a temporary name, sync, rename."""
        tensors: dict[str, torch.Tensor] = {"positions": entry.positions.cpu().contiguous()}
        for layer in range(len(entry.keys)):
            tensors[f"{layer:03}.keys"] = entry.keys[layer].cpu().contiguous()
            tensors[f"{layer:03}.values"] = entry.values[layer].cpu().contiguous()
        sums = {name: _checksum(tensor) for name, tensor in tensors.items()}
        temporary = self.folder / f"{key}-{uuid.uuid4().hex}.tmp"
        try:
            save_file(tensors, temporary, metadata=sums)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(self._path(key))
        except (OSError, SafetensorError) as error:
            temporary.unlink(missing_ok=True)
            full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
            why = "no space left on the disk; free some or choose another folder" if full else str(error)
            raise UserError(f"chunk store {self.folder}: {why}") from error

    def _read(self, key: str, name: str) -> torch.Tensor:
        try:
            with safe_open(self._path(key), framework="pt") as file:
                tensor: torch.Tensor = file.get_tensor(name)
                expected = file.metadata()[name]
        except (SafetensorError, OSError, KeyError) as error:
            raise DamagedEntry(key, str(error)) from error
        if _checksum(tensor) != expected:
            raise DamagedEntry(key, f"{name} does not match its checksum")
        return tensor

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions [n]."""
        return self._read(key, "positions")

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One layer's keys or values, [n, Hkv, D], verified against its checksum."""
        return self._read(key, f"{layer:03}.{part}")

    def drop(self, key: str) -> None:
        """Remove an entry."""
        self._path(key).unlink(missing_ok=True)

    def cool(self) -> None:
        """Ask the kernel to drop the entries' pages (clean pages go; on Linux)."""
        for path in self.folder.glob("*.safetensors"):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
