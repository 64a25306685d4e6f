"""The file of an entry: a header, then layer by layer keys and values.

    bytes 0..7     magic "QCKV", format version (uint32)
    bytes 8..19    length of the JSON (uint32), its xxh3 checksum (uint64); all little-endian
    bytes 20..     JSON, padded to whole pages
    then           keys [n, Hkv, D] and values [n, Hkv, D] of layer 0, of layer 1, ...; padded to whole pages

A layer's keys and values lie side by side, and layers follow each other, so a layer is one read and so is a
range of layers. Big layers start on a page of their own; small ones (a method's anchors) are packed tightly,
which makes many of them one small read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import xxhash

from bench.kv import Entry
from bench.store import Part
from bench.store.buffers import PAGE

MAGIC, VERSION = b"QCKV", 1
PARTS: tuple[Part, Part] = ("keys", "values")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

_PREFIX = struct.Struct("<4sIIQ")
_BIG_LAYER = 16 * PAGE  # from here on a page's padding is less than a sixteenth
_GAP = 8 * PAGE  # reading over so much costs less than a second read


class LayoutError(ValueError):
    """A header that cannot be what was written. The message says why."""


@dataclass(frozen=True)
class Extent:
    """One contiguous read: file offsets [start, end), both whole pages, and the layers it brings.

    `offsets` are where the first layer's parts begin in it, in bytes; further layers follow at the stride.
    """

    start: int
    end: int
    layers: range
    offsets: tuple[tuple[Part, int], ...]


@dataclass(frozen=True)
class Header:
    """What a file says of itself. `sums` are xxh3 checksums by layer: (keys, values)."""

    key: str
    model: str
    dtype: str
    layers: int
    n: int
    kv_heads: int
    head_size: int
    positions: tuple[tuple[int, int], ...]
    """Runs of consecutive positions: (first, how many), of all layers in turn where they differ."""
    sums: tuple[tuple[int, int], ...]

    @cached_property
    def torch_dtype(self) -> torch.dtype:
        """Element type of keys and values."""
        return DTYPES[self.dtype]

    @cached_property
    def part_bytes(self) -> int:
        """Bytes of one layer's keys, and of its values."""
        return self.n * self.kv_heads * self.head_size * self.torch_dtype.itemsize

    @cached_property
    def stride(self) -> int:
        """Bytes from one layer to the next."""
        layer = 2 * self.part_bytes
        return whole_pages(layer) if layer >= _BIG_LAYER else layer

    @cached_property
    def encoded(self) -> bytes:
        """The header as it stands in the file, whole pages."""
        fields = {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}
        text = json.dumps(fields, separators=(",", ":")).encode()
        head = _PREFIX.pack(MAGIC, VERSION, len(text), xxhash.xxh3_64_intdigest(text)) + text
        return head.ljust(whole_pages(len(head)), b"\0")

    @cached_property
    def file_bytes(self) -> int:
        """Size of the whole file."""
        return len(self.encoded) + whole_pages(self.layers * self.stride)

    def offset(self, layer: int, part: Part) -> int:
        """Where a part begins in the file."""
        return len(self.encoded) + layer * self.stride + (part == "values") * self.part_bytes

    def sum_of(self, layer: int, part: Part) -> int:
        """The checksum a part must have."""
        return self.sums[layer][part == "values"]

    @cached_property
    def position_tensor(self) -> torch.Tensor:
        """Chunk-local positions [n] int64, or [layers, n]; not to be written to."""
        at = torch.tensor(
            [p for first, many in self.positions for p in range(first, first + many)], dtype=torch.int64
        )
        return at if len(at) == self.n else at.view(self.layers, self.n)

    def extents(self, layers: range, parts: Sequence[Part]) -> list[Extent]:
        """The reads that bring parts of neighbouring layers; what lies close together is one read."""
        wanted = [part for part in PARTS if part in parts]
        if not (wanted and layers):
            return []
        length = self.part_bytes * (1 + (wanted[-1] != wanted[0]))
        if self.stride - length <= _GAP:
            return [self._extent(layers, wanted, length)]
        return [self._extent(range(i, i + 1), wanted, length) for i in layers]

    def _extent(self, layers: range, parts: list[Part], length: int) -> Extent:
        """`length` is the bytes of a layer from the first part's beginning to the last one's end."""
        begin = self.offset(layers[0], parts[0])
        start, end = begin // PAGE * PAGE, whole_pages(self.offset(layers[-1], parts[0]) + length)
        return Extent(start, end, layers, tuple((p, self.offset(layers[0], p) - start) for p in parts))


def whole_pages(size: int) -> int:
    """A number of bytes rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def checksum(tensor: torch.Tensor) -> int:
    """xxh3 of a contiguous CPU tensor's bytes. Leaves the interpreter free meanwhile (from 64 KiB on)."""
    return xxhash.xxh3_64_intdigest(as_bytes(tensor))


def as_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, not copied."""
    return tensor.view(-1).view(torch.uint8).numpy().data


def describe(key: str, model: str, entry: Entry) -> Header:
    """The header of an entry on the CPU. Raises `ValueError` for what is no entry."""
    layers, n, kv_heads, head_size = entry.keys.shape
    dtype = dtype_name(str(entry.keys.dtype))
    if entry.values.shape != entry.keys.shape or entry.values.dtype != entry.keys.dtype:
        raise ValueError("keys and values of an entry must have the same shape and element type")
    if entry.positions.shape not in ((n,), (layers, n)) or dtype not in DTYPES:
        raise ValueError(
            f"positions of shape {tuple(entry.positions.shape)} and {dtype} keys of {tuple(entry.keys.shape)}"
        )
    sums = tuple((checksum(entry.keys[i]), checksum(entry.values[i])) for i in range(layers))
    return Header(
        key, model, dtype, layers, n, kv_heads, head_size, _runs(entry.positions.flatten().tolist()), sums
    )


def dtype_name(dtype: str) -> str:
    """The name in a header: "bfloat16" for "torch.bfloat16" and for "bfloat16"."""
    return dtype.removeprefix("torch.")


def encoded_size(first_page: bytes) -> int:
    """Bytes of the header that begins with this page (whole pages). Raises `LayoutError`."""
    magic, version, length, _ = _PREFIX.unpack_from(first_page)
    if magic != MAGIC:
        raise LayoutError("it does not begin as an entry does")
    if version != VERSION:
        raise LayoutError(f"it has format version {version}, this is version {VERSION}")
    return whole_pages(_PREFIX.size + length)


def decode(encoded: bytes) -> Header:
    """A header read back. Raises `LayoutError` unless it is one that was written."""
    _, _, length, expected = _PREFIX.unpack_from(encoded)
    text = encoded[_PREFIX.size : _PREFIX.size + length]
    if len(text) != length or xxhash.xxh3_64_intdigest(text) != expected:
        raise LayoutError("its header does not match its checksum")
    try:
        fields: dict[str, Any] = json.loads(text)
        for pairs in ("positions", "sums"):
            fields[pairs] = tuple((int(a), int(b)) for a, b in fields[pairs])
        header = Header(**fields)
        sizes = (header.layers, header.n, header.kv_heads, header.head_size)
        fit = all(size >= 0 for size in sizes) and header.dtype in DTYPES
        fit = fit and sum(many for _, many in header.positions) in (header.n, header.layers * header.n)
    except (ValueError, KeyError, TypeError) as error:
        raise LayoutError(f"its header cannot be read: {error}") from error
    if not fit or len(header.sums) != header.layers:
        raise LayoutError(f"its header contradicts itself: {header.dtype}, sizes {sizes}")
    return header


def _runs(positions: list[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    return tuple(runs)
