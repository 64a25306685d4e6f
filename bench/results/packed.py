"""A run's files, plain or compressed: what is committed or kept for long is kept as NAME.gz."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from bench.errors import UserError


def kept(path: Path) -> Path | None:
    """The file itself, else its compressed copy beside it; None where there is neither."""
    packed = path.with_name(path.name + ".gz")
    return next((one for one in (path, packed) if one.is_file()), None)


def content(path: Path) -> bytes:
    """The bytes of a file that `kept` found. Raises `UserError` where its compression is damaged."""
    stored = path.read_bytes()
    if path.suffix != ".gz":
        return stored
    try:
        return gzip.decompress(stored)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged ({error}); get it again") from error
