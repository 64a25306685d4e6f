"""Data files a user hands over: read once, hashed, with one line for whatever is wrong with them."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.errors import UserError

_KINDS = {
    str: "a string",
    list: "a list",
    int: "a whole number",
    dict: "an object",
    bool: "true or false",
}


def read(path: Path, family: str, wanted: str) -> tuple[bytes, str]:
    """A file's bytes and their SHA-256 (hex).

    `family` and `wanted` say whose file it is and what it should be. Raises `UserError` where it
    cannot be read.
    """
    if not path.is_file():
        raise UserError(f"{family}: no file {path}; path is {wanted}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{family}: {path} cannot be read ({error.strerror}); path is {wanted}") from error
    return data, hashlib.sha256(data).hexdigest()


def require_hash(path: Path, found: str, wanted: str | None) -> None:
    """Raise `UserError` where a file's SHA-256 is not the one asked for (None: any)."""
    if wanted is not None and found != wanted.lower():
        raise UserError(f"{path}: SHA-256 is {found}, not {wanted}; another or a damaged file")


def unpacked(data: bytes, path: Path) -> bytes:
    """The bytes of a file that may be gzip's. Raises `UserError` where it is damaged."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a sound gzip file ({error}); download it again") from error


def parse(data: bytes, where: str) -> Any:
    """One JSON value; a byte order mark is skipped. Raises `UserError` where it is not JSON in UTF-8."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, nesting without end
        raise UserError(f"{where}: not JSON ({error})") from error


def json_lines(data: bytes, source: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The JSON objects of a JSONL file: where each stands, its line number from 1, the object.

    Lines may end as on Windows, and the first may begin with a byte order mark; blank lines are skipped.
    Raises `UserError` at the first line that is not a JSON object.
    """
    # splitlines() of bytes knows \n, \r\n and \r, which JSON's strings cannot hold unescaped.
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        record = parse(line, where)
        if not isinstance(record, dict):
            raise UserError(f"{where}: not a JSON object")
        yield where, number, record


def field(record: Any, name: str, kind: type, where: str) -> Any:
    """A field that must be there and of one type. Raises `UserError` naming it where it is not."""
    if not isinstance(record, dict):
        raise UserError(f"{where}: not a JSON object")
    if name not in record:
        raise UserError(f"{where}: field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        kinds = {
            str: "a string",
            list: "a list",
            int: "a whole number",
            dict: "an object",
            bool: "true or false",
        }
        raise UserError(f"{where}: field {name!r} is not {kinds[kind]}")
    return value
