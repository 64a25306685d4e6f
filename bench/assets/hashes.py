"""What tells whether a file is the one it was: its SHA-256, and the cheaper stamp."""

from __future__ import annotations

import hashlib
from pathlib import Path

_BLOCK = 1 << 24  # bytes


def sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's content, read now."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def stamp(path: Path) -> list[int]:
    """Size in bytes, and times of last write and of last change in nanoseconds.

    The time of change cannot be set by a program, so an equal stamp means that the file is the same one.
    """
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
