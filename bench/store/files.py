"""Files of the disk tier: direct reads, writing whole or not at all, and what their failures mean."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry
from bench.store.buffers import PAGE, aligned
from bench.store.layout import PARTS, Header, LayoutError, as_bytes, decode, encoded_size

SUFFIX = ".kv"
TEMPORARY = ".tmp"

_MEND = {
    errno.ENOSPC: "no space left on the disk; free some or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
    errno.EACCES: "permission denied; make it readable and writable or choose another folder",
    errno.EPERM: "permission denied; make it readable and writable or choose another folder",
    errno.EROFS: "it is on a read-only file system; choose another folder",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EEXIST: "a file stands where a folder is needed; choose another folder",
    errno.ENOENT: "it was deleted while an entry was written; leave it alone during a run",
}


@contextlib.contextmanager
def mendable(folder: Path) -> Iterator[None]:
    """Turn the failures that a user can mend into one line; others pass through."""
    try:
        yield
    except OSError as error:
        if error.errno not in _MEND:
            raise
        raise UserError(f"chunk store {folder}: {_MEND[error.errno]}") from error


class OpenFile:
    """An entry's file, open for reading, and its header. Closes when nobody refers to it any more.

    What is open stays readable when the file is deleted or replaced. Raises `DamagedEntry`.
    """

    def __init__(self, folder: Path, key: str, direct: bool) -> None:
        self.key, self.direct = key, direct
        flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
        self._descriptor = -1  # should opening fail
        try:
            self._descriptor = os.open(folder / f"{key}{SUFFIX}", flags)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise DamagedEntry(key, "it is not in the store; was it deleted?") from error
        except PermissionError as error:
            raise UserError(
                f"chunk store {folder}: permission denied on entry {key}; make it readable"
            ) from error
        self.header = self._read_header()
        self.checked = bytearray(2 * self.header.layers)
        """1 for every (layer, part) that matched its checksum once."""
        self.used_at = float("-inf")
        """When the last use was noted in the file, seconds of `time.monotonic`."""

    def _read_header(self) -> Header:
        size = os.fstat(self._descriptor).st_size
        if size < PAGE:
            raise DamagedEntry(self.key, f"the file has {size} bytes, fewer than its header")
        try:
            page = bytes(as_bytes(self.read_pages(0, PAGE)))
            length = encoded_size(page)
            if length > size:
                raise LayoutError(f"the file has {size} bytes, its header {length}")
            header = decode(page if length == PAGE else bytes(as_bytes(self.read_pages(0, length))))
        except LayoutError as error:
            raise DamagedEntry(self.key, str(error)) from error
        if header.key != self.key:
            raise DamagedEntry(self.key, f"the file is that of entry {header.key}")
        if header.file_bytes != size:
            raise DamagedEntry(self.key, f"the file has {size} bytes of {header.file_bytes}")
        return header

    def read_pages(self, start: int, length: int) -> torch.Tensor:
        """`length` bytes from `start`, both whole pages, in a fresh buffer."""
        buffer = aligned(length)
        self.read_into(buffer, start)
        return buffer

    def read_into(self, buffer: torch.Tensor, start: int) -> None:
        """Fill an aligned buffer from a file offset. The interpreter is free meanwhile."""
        view, done = as_bytes(buffer), 0
        while done < len(view):
            try:
                got = os.preadv(self._descriptor, [view[done:]], start + done)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                raise DamagedEntry(self.key, "the disk cannot read it (input/output error)") from error
            if got == 0 or (self.direct and got % PAGE):
                raise DamagedEntry(self.key, "the file ends too early")
            done += got

    def note_use(self) -> None:
        """Make this entry the youngest in the eyes of whoever evicts."""
        with contextlib.suppress(PermissionError):  # another user's entry: only its owner can keep it young
            os.utime(self._descriptor)

    def forget_pages(self) -> None:
        """Ask the kernel to drop the file's pages from its cache (clean ones go)."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at exit `os` is gone already
        if self._descriptor >= 0:
            close(self._descriptor)


def prepare_folder(folder: Path) -> bool:
    """Make a store's folder, remove what crashed writers left, and try a direct read. Whether it works."""
    with mendable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        with _temporary(folder, "probe") as (descriptor, path):
            _write_all(descriptor, memoryview(bytes(PAGE)))
            os.fsync(descriptor)
            return _reads_directly(path)


def _reads_directly(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    try:
        return os.preadv(descriptor, [as_bytes(aligned(PAGE))], 0) == PAGE
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    finally:
        os.close(descriptor)


def write_entry(folder: Path, header: Header, entry: Entry) -> None:
    """Write an entry (on the CPU, contiguous) under its name, whole or not at all. Raises `UserError`."""
    with mendable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _temporary(folder, header.key) as (descriptor, path):
            _write_all(descriptor, memoryview(header.encoded))
            for layer in range(header.layers):
                for part in PARTS:
                    os.lseek(descriptor, header.offset(layer, part), os.SEEK_SET)
                    _write_all(descriptor, as_bytes(getattr(entry, part)[layer]))
            os.ftruncate(descriptor, header.file_bytes)  # the last page's padding
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            path.rename(folder / f"{header.key}{SUFFIX}")
        _flush_folder(folder)


@contextlib.contextmanager
def _temporary(folder: Path, name: str) -> Iterator[tuple[int, Path]]:
    """A new file under a temporary name, removed at the end unless it was renamed.

    Its writer holds a lock on it, which the kernel lets go when the process ends, however it ends.
    """
    while True:
        path = folder / f"{name}-{uuid.uuid4().hex}{TEMPORARY}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink == 0:  # taken for stale before it was locked
                continue
            yield descriptor, path
            return
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    """Remove temporary files whose writer is gone; another process may be writing the others."""
    for path in folder.glob(f"*{TEMPORARY}"):
        with contextlib.suppress(FileNotFoundError):  # just finished, or removed by another
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
