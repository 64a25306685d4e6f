"""Append result rows so that a kill loses at most the running request."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from bench.assets.cache import write_atomically
from bench.errors import UserError
from bench.results.schema import Row


def disk_error(path: Path, error: OSError) -> UserError:
    """The one-line message for a write that failed."""
    if error.errno == errno.ENOSPC:
        return UserError(f"{path}: no space left on the disk; free some and run the same command again")
    return UserError(f"{path}: {error.strerror}; choose another folder with --out")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all. Raises `UserError` where it cannot be written."""
    try:
        write_atomically(path, json.dumps(content, indent=1, default=str))
    except OSError as error:
        raise disk_error(path, error) from error


class RowWriter:
    """`rows.jsonl`, open for appending.

    All rows of one request are one write, synced. On opening, what an interrupted write left is
    taken out: a torn last line, and rows of a request that has fewer than `expected` gives for its
    (model, dataset); such a request is measured again, so that its methods stay interleaved.
    """

    def __init__(self, path: Path, expected: dict[tuple[str, str], int]) -> None:
        self.path = path
        self.done: set[tuple[str, str, str]] = set()
        """(model, dataset, request) of the finished requests."""
        self.rows: list[Row] = []
        """Rows that were there already."""
        try:
            self._recover(expected)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise disk_error(path, error) from error

    def _recover(self, expected: dict[tuple[str, str], int]) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        rows = [self._row(number, line) for number, line in enumerate(whole.splitlines(), 1)]
        counts = Counter((r.model, r.dataset, r.request) for r in rows)
        self.done = {unit for unit, n in counts.items() if n == expected.get(unit[:2])}
        self.rows = [r for r in rows if (r.model, r.dataset, r.request) in self.done]
        kept = "".join(r.model_dump_json() + "\n" for r in self.rows).encode()
        if len(self.rows) < len(rows) or len(whole) < len(content):
            temporary = self.path.with_suffix(".tmp")
            temporary.write_bytes(kept)
            temporary.replace(self.path)

    def _row(self, number: int, line: bytes) -> Row:
        try:
            return Row.model_validate_json(line)
        except ValidationError as error:
            raise UserError(f"{self.path}:{number}: not a row; give another --out, or --fresh") from error

    def append(self, rows: Sequence[Row]) -> None:
        """Write the rows of one request. Raises `UserError` and leaves no part of them on failure."""
        data = "".join(row.model_dump_json() + "\n" for row in rows).encode()
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise disk_error(self.path, error) from error

    def append_beside(self, name: str, records: Sequence[BaseModel]) -> None:
        """Write records to a file beside the rows, such as `timelines.jsonl`, one a line."""
        if not records:
            return
        path = self.path.with_name(name)
        try:
            with path.open("ab+") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # an earlier write was cut short
                        file.write(b"\n")
                file.writelines(record.model_dump_json().encode() + b"\n" for record in records)
        except OSError as error:
            raise disk_error(path, error) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
