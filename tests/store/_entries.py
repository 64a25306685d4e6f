"""Small entries, and ways to damage their files."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from bench.kv import Entry
from bench.store import Part
from bench.store.buffers import PAGE
from bench.store.disk import DiskStore
from bench.store.files import SUFFIX
from bench.store.layout import decode, encoded_size

LAYERS = 3
PLACES: list[tuple[int, Part]] = [(layer, part) for layer in range(LAYERS) for part in ("keys", "values")]


def entry(n: int = 6, dtype: torch.dtype = torch.bfloat16, layers: int = LAYERS) -> Entry:
    """An entry whose content depends on its size alone."""
    torch.manual_seed(n)
    keys, values = torch.randn(2, layers, n, 2, 4).to(dtype)
    return Entry(keys, values, torch.arange(n))


def file_of(store: DiskStore, key: str) -> Path:
    """The file of an entry."""
    return store.folder / f"{key}{SUFFIX}"


def rewrite_header(path: Path, **changes: Any) -> None:
    """Change what a file says of itself, with a checksum that fits."""
    content = path.read_bytes()
    size = encoded_size(content[:PAGE])
    header = dataclasses.replace(decode(content[:size]), **changes)
    assert len(header.encoded) == size
    path.write_bytes(header.encoded + content[size:])


def flip(path: Path, offset: int) -> None:
    """Flip one bit in place, as a disk would."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same, element type included."""
    return a.dtype == b.dtype and torch.equal(a, b)


def in_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run code in a process of its own; `sys.argv[1:]` are the arguments."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
