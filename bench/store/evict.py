"""A size limit for the disk tier: the least recently used entries go."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import filelock

from bench.errors import UserError
from bench.store.files import SUFFIX

LOCK = ".evict.lock"
WAIT_S = 60
"""Evicting takes a fraction of a second; whoever holds the lock for so long hangs."""


def evict(folder: Path, limit: int, keep: Collection[str]) -> list[str]:
    """Remove entries, least recently used first, until the rest take at most `limit` bytes; their keys.

    Entries in `keep` stay, even if they alone take more. One process at a time evicts; another process that
    reads an entry which goes has it open and reads on. Last use is the file's time of modification.
    Raises `UserError` when another process does not let go of the lock.
    """
    with _alone(folder):
        found = _entries(folder)
        total = sum(size for _, size, _ in found)
        gone: list[str] = []
        for _, size, key in sorted(found):
            if total <= limit:
                break
            if key not in keep:
                (folder / f"{key}{SUFFIX}").unlink(missing_ok=True)
                total -= size
                gone.append(key)
    return gone


def _entries(folder: Path) -> list[tuple[int, int, str]]:
    """(last use in ns, bytes, key) of every entry."""
    found = []
    for item in os.scandir(folder):
        if item.name.endswith(SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # dropped by another process meanwhile
                status = item.stat()
                found.append((status.st_mtime_ns, status.st_size, item.name.removesuffix(SUFFIX)))
    return found


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = filelock.FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=WAIT_S)
    except filelock.Timeout as error:
        raise UserError(
            f"chunk store {folder}: another process has held {LOCK} for {WAIT_S} s; end that process"
        ) from error
    try:
        yield
    finally:
        lock.release()
