"""The cache folder: entries appear in it whole or not at all, and are built by one process at a time.

An entry is a folder. It is built under a temporary name beside its place, its files are flushed to disk,
a marker with their SHA-256 is written last, and one rename publishes it. A folder without a marker, or
whose files no longer match it, is never used: the next run builds it again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import platformdirs

from bench.assets import hashes
from bench.errors import UserError

MARKER = ".complete.json"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

Say = Callable[[str], None]


def silent(line: str) -> None:
    """The `say` of callers who want no progress lines."""


def root() -> Path:
    """The cache folder: `QCBENCH_CACHE`, else `qcbench` in the user's XDG cache folder. Creates nothing.

    Raises `UserError` where `QCBENCH_CACHE` begins with the home of nobody.
    """
    chosen = os.environ.get("QCBENCH_CACHE")
    try:
        return Path(chosen).expanduser().absolute() if chosen else platformdirs.user_cache_path("qcbench")
    except RuntimeError as error:
        raise UserError(f"QCBENCH_CACHE={chosen}: {error}; give a folder of your own") from error


def check() -> None:
    """Raise `UserError` where the cache folder is not there and cannot be made. Leaves nothing behind."""
    try:
        if not root().is_dir():  # one that can only be read serves what it holds
            try_folder(root())
    except OSError as error:
        raise _not_writable(error) from error


def try_folder(folder: Path) -> None:
    """Raise `OSError` where `folder` cannot be made or written. Leaves nothing behind."""
    there = folder.absolute()
    while True:
        try:
            there.lstat()  # raises something else where a name is too long
            break
        except (FileNotFoundError, NotADirectoryError):
            there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    with tempfile.TemporaryDirectory(prefix=".qcbench-", dir=there):
        pass


def entry(name: str, build: Callable[[Path], object], *, need: Callable[[], int], say: Say = silent) -> Path:
    """The folder of the cache entry `name` ("kind/name"), built by `build(folder)` when it is not there.

    `need()` is the most disk space in bytes that `build` takes. Processes that ask for the same entry wait
    for the first one. Raises `UserError` when the folder cannot be written or the disk is full; whatever
    `build` raises passes through. Nothing is left behind in either case.
    """
    check()
    place = root() / name
    with _translated(place):
        if not is_complete(place):  # asked before the lock, so that a read-only cache serves too
            with _locked(place, say):
                _build(place, build, need, say)
    return place


def is_complete(place: Path) -> bool:
    """Whether an entry's marker is there and every file it lists is unchanged.

    Unchanged stamps are trusted; a file with a new stamp (a copied cache) is hashed, and the marker renewed.
    """
    try:
        listed = json.loads((place / MARKER).read_text(encoding="utf-8"))["files"]
        present = {path.relative_to(place).as_posix() for path in _files(place)}
        if present != set(listed):
            return False
        restamped = False
        for name, known in listed.items():
            if known["stamp"] != hashes.stamp(place / name):
                if known["stamp"][0] != (place / name).stat().st_size:
                    return False
                if known["sha256"] != hashes.sha256(place / name):
                    return False
                restamped = True
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
        return False
    if restamped:
        with contextlib.suppress(OSError):  # a read-only cache is hashed at every start instead
            write_atomically(place / MARKER, _marker(place, {n: k["sha256"] for n, k in listed.items()}))
    return True


def require_space(folder: Path, need: int, setting: str = "QCBENCH_CACHE") -> None:
    """Raise `UserError` unless the disk of `folder`, which `setting` can move, has `need` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < need:
        raise UserError(
            f"not enough disk space in {folder}: {need / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free; "
            f"make room, or set {setting} to a folder on a larger disk"
        )


def write_atomically(path: Path, text: str) -> None:
    """Replace a small text file in one step. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.tmp-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, path.parent.stat().st_mode & 0o666)  # not mkstemp's 0600: see _seal
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _build(place: Path, build: Callable[[Path], object], need: Callable[[], int], say: Say) -> None:
    """Make an entry while its lock is held, unless the process waited for has made it."""
    if is_complete(place):
        return
    for stale in place.parent.glob(f".{place.name}.tmp-*"):  # under the lock nobody else works on them
        shutil.rmtree(stale, ignore_errors=True)  # what stays is never used, and is tried again next time
    if place.exists():
        say(f"{place} is damaged; making it again")
        shutil.rmtree(place)
    require_space(place.parent, need())
    temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.tmp-", dir=place.parent))
    try:
        build(temporary)
        _seal(temporary, place.parent.stat().st_mode & 0o777)
        temporary.rename(place)
        _flush(place.parent)
    except BaseException:  # an interrupt too must leave nothing behind
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file() and path.name != MARKER)


def _marker(place: Path, digests: dict[str, str]) -> str:
    files = {name: {"sha256": sha, "stamp": hashes.stamp(place / name)} for name, sha in digests.items()}
    return json.dumps({"files": files}, indent=1)


def _seal(place: Path, mode: int) -> None:
    """Flush an entry's files, then write the marker that makes them an entry.

    `mode` is the folder's: temporary folders and safetensors files are private, a shared cache need not be.
    """
    place.chmod(mode)
    digests = {}
    for path in _files(place):
        path.chmod(mode & 0o666)
        _flush(path)
        digests[path.relative_to(place).as_posix()] = hashes.sha256(path)
    write_atomically(place / MARKER, _marker(place, digests))
    _flush(place)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(place: Path, say: Say) -> Iterator[None]:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # a file stands where the folder should be
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place.parent)) from error
    lock = filelock.FileLock(place.parent / f".{place.name}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"waiting for another process that makes {place.name}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _translated(place: Path) -> Iterator[None]:
    """Turn the failures a user can mend, a full disk and an unwritable folder, into `UserError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            free = shutil.disk_usage(root()).free if root().exists() else 0
            raise UserError(
                f"the disk is full: {place} could not be written ({free / 1e9:.1f} GB free now); "
                "make room, or set QCBENCH_CACHE to a folder on a larger disk"
            ) from error
        if error.errno in _NOT_WRITABLE:
            raise _not_writable(error) from error
        raise


def _not_writable(error: OSError) -> UserError:
    return UserError(
        f"the cache folder {root()} cannot be written ({error.strerror}); "
        "set QCBENCH_CACHE to a folder of your own"
    )
