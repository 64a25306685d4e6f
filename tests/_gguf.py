"""Small GGUF files, whole or split as llama.cpp splits them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

TENSORS = {f"blk.{i}.w": np.arange(i, i + 8, dtype=np.float32).reshape(2, 4) for i in range(5)}


def tiny_gguf(path: Path, architecture: str = "llama", extra: dict[str, np.ndarray] | None = None) -> Path:
    """A whole file: two fields, an array and five tensors, besides `extra`."""
    _write(path, {**TENSORS, **(extra or {})}, architecture)
    return path


def split_gguf(folder: Path, name: str, count: int) -> list[Path]:
    """The same file in parts; all metadata lies in the first."""
    paths = []
    for number in range(count):
        path = folder / f"{name}-{number + 1:05}-of-{count:05}.gguf"
        _write(path, dict(list(TENSORS.items())[number::count]), "llama", (number, count))
        paths.append(path)
    return paths


def _write(
    path: Path, tensors: dict[str, np.ndarray], architecture: str, part: tuple[int, int] | None = None
) -> None:
    writer = GGUFWriter(path, architecture)
    if part is None or part[0] == 0:
        writer.add_block_count(4)
        writer.add_token_list(["a", "b", "ρ"])
    if part is not None:
        writer.add_uint16("split.no", part[0])
        writer.add_uint16("split.count", part[1])
        writer.add_int32("split.tensors.count", len(TENSORS))
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
