"""The disk tier: one file an entry, read directly from the device, one read for what lies together."""

from __future__ import annotations

import contextlib
import random
import resource
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from bench.errors import UserError
from bench.kv import Entry
from bench.store import DamagedEntry, Part, Take
from bench.store.buffers import PAGE, aligned
from bench.store.evict import evict
from bench.store.files import SUFFIX, OpenFile, mendable, prepare_folder, write_entry
from bench.store.layout import PARTS, Header, checksum, describe, dtype_name
from bench.store.throttle import Throttle

OPEN_FILES = 256
"""Entries kept open at most, besides those held."""
NOTE_USE_S = 60.0
"""A use is noted in the file at most this often."""


class DiskStore:
    """Entries under a folder. Several processes may share it.

    Reads bypass the page cache where the file system can (`direct`); elsewhere `cool` drops the pages.
    A (layer, part) is checked against its checksum when it is first read in a process, or held; later reads
    check a random share of `recheck`, which keeps the cost of checking far below that of reading.

    model, dtype: what the entries must be of (dtype as in "bfloat16"); empty: whatever. limit_bytes: when the
    files are larger than this, the least recently used go. Raises `UserError` where the folder cannot be
    written or the disk is full; a half-written entry never gets an entry's name.
    """

    tier = "disk"

    def __init__(
        self, folder: Path, *, model: str = "", dtype: str = "", limit_bytes: int | None = None,
        recheck: float = 0.1, direct: bool | None = None, throttle: Throttle | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.model, self.dtype = folder, model, dtype_name(dtype)
        self.limit_bytes, self.recheck, self.throttle = limit_bytes, recheck, throttle
        possible = prepare_folder(folder)
        self.direct = possible if direct is None else direct and possible
        self.how = "direct reads" if self.direct else "page cache dropped before each request"
        self._lock = threading.Lock()  # of the three below, never held while reading or writing
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._warm: set[str] = set()  # entries whose pages may be in the page cache
        self._most_open = min(OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def put(self, key: str, entry: Entry) -> None:
        """Write an entry under a temporary name, sync, rename; then keep to the size limit."""
        entry = Entry(entry.keys.cpu().contiguous(), entry.values.cpu().contiguous(), entry.positions.cpu())
        header = describe(key, self.model, entry)
        if self.limit_bytes is not None and header.file_bytes > self.limit_bytes:
            raise UserError(
                f"chunk store {self.folder}: its limit of {self.limit_bytes} bytes is less than one entry of "
                f"{header.file_bytes}; raise it"
            )
        write_entry(self.folder, header, entry)
        with self._lock:
            self._open.pop(key, None)
            self._warm.add(key)
            held = set(self._held)
        if self.limit_bytes is not None:
            with mendable(self.folder):
                gone = evict(self.folder, self.limit_bytes, keep=held | {key})
            with self._lock:
                for name in gone:
                    self._open.pop(name, None)

    def positions(self, key: str) -> torch.Tensor:
        """Chunk-local positions [n]."""
        return self._file(key).header.position_tensor

    def header(self, key: str) -> Header:
        """What an entry's file says of itself. Raises `DamagedEntry`."""
        return self._file(key).header

    def layer_bytes(self, key: str) -> int:
        """Bytes of one layer's keys and values, without padding."""
        return 2 * self._file(key).header.part_bytes

    def read(
        self, key: str, layers: range, parts: Sequence[Part], take: Take
    ) -> dict[tuple[int, Part], torch.Tensor]:
        """Keys and values of neighbouring layers, each [n, Hkv, D]: views of buffers that `take` gave.

        One read of the device for what lies together; its bytes, padding included, are the throttle's.
        """
        return self._read(self._file(key), layers, parts, take, self.throttle)

    def part(self, key: str, layer: int, part: Part) -> torch.Tensor:
        """One layer's keys or values, [n, Hkv, D]; not throttled."""
        return self._read(self._file(key), range(layer, layer + 1), [part], aligned, None)[layer, part]

    @contextlib.contextmanager
    def hold(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep entries open, and from this process's evictions; check what was not checked yet.

        Another process may still evict them: what is open stays readable all the same.
        """
        keys = list(keys)
        with self._lock:
            self._held.update(keys)
        try:
            files = [self._file(key) for key in keys]
            for file in files:
                self._check_all(file)
                _ = file.header.position_tensor  # decoded here, not while a request waits
            yield
            del files  # only now may they close
        finally:
            with self._lock:
                self._held -= Counter(keys)

    def drop(self, key: str) -> None:
        """Remove an entry."""
        with mendable(self.folder), contextlib.suppress(NotADirectoryError):
            self._path(key).unlink(missing_ok=True)
        with self._lock:
            self._open.pop(key, None)

    def cool(self) -> None:
        """Where reads are not direct, drop the pages of the entries this process has read or written."""
        with self._lock:
            warm, self._warm = self._warm, set()
        for key in () if self.direct else warm:
            with contextlib.suppress(DamagedEntry):  # gone or damaged: whoever reads it will say so
                self._file(key).forget_pages()

    def _file(self, key: str) -> OpenFile:
        """The open file of an entry, its header read and fit for this run."""
        with self._lock:
            file = self._open.get(key)
            if file is not None:
                self._open.move_to_end(key)
        if file is None:
            file = OpenFile(self.folder, key, self.direct)
            self._require_fit(file)
            if not self.direct:
                file.forget_pages()  # an earlier run may have left them
            with self._lock:
                file = self._open.setdefault(key, file)
                self._trim()
        if time.monotonic() - file.used_at > NOTE_USE_S:
            file.used_at = time.monotonic()
            file.note_use()
        return file

    def _require_fit(self, file: OpenFile) -> None:
        for must, name in ((self.model, "model"), (self.dtype, "dtype")):
            found = getattr(file.header, name)
            if must and found != must:
                raise DamagedEntry(file.key, f"it is of {name} {found!r}, not {must!r}")

    def _trim(self) -> None:
        """Let go of the files not used for longest, but not of held ones; readers keep theirs to the end."""
        spare = len(self._open) - self._most_open
        for key in [key for key in self._open if key not in self._held][: max(spare, 0)]:
            del self._open[key]

    def _check_all(self, file: OpenFile) -> None:
        checked = file.checked
        unchecked = [i for i in range(file.header.layers) if not (checked[2 * i] and checked[2 * i + 1])]
        for layer in unchecked:
            self._read(file, range(layer, layer + 1), PARTS, aligned, None)
        if unchecked and not self.direct:
            file.forget_pages()

    def _read(
        self, file: OpenFile, layers: range, parts: Sequence[Part], take: Take, throttle: Throttle | None
    ) -> dict[tuple[int, Part], torch.Tensor]:
        header = file.header
        if layers.step != 1 or layers.start < 0:
            raise ValueError(f"neighbouring layers are read, not {layers}")
        if layers.stop > header.layers:
            raise DamagedEntry(file.key, f"layer {layers.stop - 1} is missing, it has {header.layers} layers")
        shape = (header.n, header.kv_heads, header.head_size)
        if not header.part_bytes:
            return {(i, part): torch.empty(shape, dtype=header.torch_dtype) for i in layers for part in parts}
        if not self.direct:
            with self._lock:
                self._warm.add(file.key)
        one = header.torch_dtype.itemsize
        strides = (header.stride // one, header.kv_heads * header.head_size, header.head_size, 1)
        found: dict[tuple[int, Part], torch.Tensor] = {}
        for extent in header.extents(layers, parts):
            size = extent.end - extent.start
            buffer = take(size)[:size]
            if buffer.data_ptr() % PAGE or buffer.nbytes != size:
                raise ValueError(f"`take` gave {buffer.nbytes} bytes at {buffer.data_ptr():#x} for {size}")
            if throttle is None:
                file.read_into(buffer, extent.start)
            else:
                throttle.deliver(size, partial(_read_slice, file, buffer, extent.start))
            elements = buffer.view(header.torch_dtype)
            for part, offset in extent.offsets:
                for layer in extent.layers:
                    if self._due(file, layer, part):
                        at = offset + (layer - extent.layers[0]) * header.stride
                        self._check(file, layer, part, buffer[at : at + header.part_bytes])
                begin = elements.storage_offset() + offset // one
                every = elements.as_strided((len(extent.layers), *shape), strides, begin)
                found |= zip(((layer, part) for layer in extent.layers), every.unbind(), strict=True)
        return found

    def _due(self, file: OpenFile, layer: int, part: Part) -> bool:
        """Whether a part is to be checked: it never was, or the sample takes it."""
        return not file.checked[2 * layer + (part == "values")] or random.random() < self.recheck

    def _check(self, file: OpenFile, layer: int, part: Part, flat: torch.Tensor) -> None:
        """Compare with the checksum."""
        if checksum(flat) != file.header.sum_of(layer, part):
            raise DamagedEntry(file.key, f"{part} of layer {layer} do not match their checksum")
        file.checked[2 * layer + (part == "values")] = 1


def _read_slice(file: OpenFile, buffer: torch.Tensor, start: int, offset: int, length: int) -> None:
    file.read_into(buffer[offset : offset + length], start + offset)
