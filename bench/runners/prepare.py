"""Offline preparation (QCFuse, Phase I): chunk caches, a method's position sets, its model profile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from bench.assets.cache import write_atomically
from bench.engine.engine import Engine
from bench.kernels.attention_mass import attention_mass
from bench.kv import Entry
from bench.method import Method, View
from bench.methods import NamedMethod
from bench.request import Request
from bench.store import DamagedEntry, chunk_key, packed_key
from bench.store.reader import Reads
from bench.view import Cached, RequestView

T = TypeVar("T")


@dataclass
class ChunkAtHand:
    """A chunk during preparation (see `bench.method.Chunk`)."""

    preparer: Preparer
    ids: tuple[int, ...]
    key: str
    """Where its cache lies."""

    @property
    def layers(self) -> int:
        """L."""
        return self.preparer.engine.layers

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        ids: list[int] = self.preparer.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def ask(self, query: Sequence[int]) -> View:
        """This chunk alone as the context."""
        request = Request("", "", (), (self.ids,), tuple(query), (), 0)
        return RequestView(self.preparer.engine, self.preparer.reads, request, Cached((), (self.key,)))

    def recent(self, window: int) -> list[torch.Tensor]:
        """Attention mass [n - window] of what is before the chunk's last tokens, a layer."""
        engine, before = self.preparer.engine, len(self.ids) - window
        states = engine.probe(self.ids, 0, None, engine.layers - 1)
        return [
            attention_mass(q[before:], k[:before], k[before:], engine.scale)
            for q, k in zip(states.queries, states.keys, strict=True)
        ]


class Preparer:
    """Fills the store; nothing here is timed. Chunks are cached in isolation, whoever asks first."""

    def __init__(
        self, engine: Engine, reads: Reads, tokenizer: Any, revision: str,
        chunk_prefix: Literal["none", "bos", "system"] = "none", note: Callable[[str], None] = print,
    ) -> None:  # fmt: skip
        self.engine, self.reads, self.tokenizer, self.revision = engine, reads, tokenizer, revision
        self.store = reads.store
        self.chunk_prefix, self.note = chunk_prefix, note
        self._sets: dict[tuple[str, str], dict[str, str]] = {}

    def intact(self, do: Callable[[], T]) -> T:
        """Do something that reads the store; rebuild what is found damaged and do it again.

        An entry that is damaged again after rebuilding means a broken disk: its `DamagedEntry` is raised.
        """
        rebuilt: set[str] = set()
        while True:
            try:
                return do()
            except DamagedEntry as damage:
                if damage.key in rebuilt:
                    raise
                self.note(f"{damage}; rebuilding it")
                rebuilt.add(damage.key)
                self.store.drop(damage.key)

    def capture(self, ids: Sequence[int], behind: Sequence[int] = ()) -> str:
        """The store key of a chunk's cache, captured now if it is not there."""
        key = chunk_key(self.revision, str(self.engine.dtype), behind, ids)
        if key not in self.store:
            self.store.put(key, self.engine.capture(ids, behind))
        return key

    def _resident(self, prefix: Sequence[int]) -> str:
        """The store key of S, which waits on the device as a serving engine's shared prefix does."""
        key = self.capture(prefix)
        if key not in self.reads.resident:
            entry, device = self._entry(key), self.engine.device
            self.reads.resident = {
                key: Entry(entry.keys.to(device), entry.values.to(device), entry.positions)
            }
        return key

    def _behind(self, request: Request) -> Sequence[int]:
        if self.chunk_prefix == "system":
            return request.prefix
        bos = self.tokenizer.bos_token_id
        return [bos] if self.chunk_prefix == "bos" and bos is not None else []

    def caches(self, request: Request, method: NamedMethod | None = None) -> Cached:
        """Capture what the request needs, and what `method` prepares of it. S is put on the device."""
        prefix = (self._resident(request.prefix),) if request.prefix else ()
        behind = self._behind(request)
        chunks = tuple(self.capture(ids, behind) for ids in request.chunks)
        cached = Cached(prefix, chunks)
        if method is None or type(method.method).prepare is Method.prepare:
            return cached
        sets = [self._pack(method, key, ids) for key, ids in zip(chunks, request.chunks, strict=True)]
        return replace(cached, packed={name: tuple(s[name] for s in sets) for name in sets[0]})

    def _pack(self, method: NamedMethod, chunk: str, ids: tuple[int, ...]) -> dict[str, str]:
        """Run the method's `prepare` on a chunk and pack the positions it names."""
        known = self._sets.get((method.identity, chunk))
        if known is None or any(key not in self.store for key in known.values()):
            named = method.method.prepare(ChunkAtHand(self, ids, chunk))
            known = {name: packed_key(chunk, f"{method.identity}:{name}") for name in named}
            for name, positions in named.items():
                self.store.put(known[name], self._entry(chunk).packed(positions.cpu()))
            self._sets[method.identity, chunk] = known
        return known

    def _entry(self, key: str) -> Entry:
        layers = range(self.engine.layers)
        return Entry(
            torch.stack([self.store.part(key, i, "keys") for i in layers]),
            torch.stack([self.store.part(key, i, "values") for i in layers]),
            self.store.positions(key),
        )

    def _profile(self, method: NamedMethod, request: Request) -> Sequence[float]:
        with RequestView(self.engine, self.reads, request, self.caches(request, method)) as view:
            return method.method.profile(request, view)

    def profile(self, method: NamedMethod, calibration: Sequence[Request], folder: Path) -> list[float]:
        """The method's profile on this model, averaged over the calibration requests."""
        rows = self.profile_rows(method, calibration, folder)
        return [float(x) for x in np.mean(np.asarray(rows, dtype=float), axis=0)]

    def profile_rows(
        self, method: NamedMethod, calibration: Sequence[Request], folder: Path
    ) -> list[list[float]]:
        """The method's profile on each calibration request, by layer.

        Kept as JSON under `folder`, by request, in a file under a hash of all else it depends on: model,
        dtype, chunk prefix and the method's identity.
        """
        parts = [self.revision, str(self.engine.dtype), self.chunk_prefix, method.identity]
        path = folder / f"{method.name}-{hashlib.sha256(':'.join(parts).encode()).hexdigest()[:16]}-rows.json"
        known: dict[str, list[float]] = (
            json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}
        )
        keys = [_key(request) for request in calibration]
        todo = [(k, request) for k, request in zip(keys, calibration, strict=True) if k not in known]
        for i, (key, request) in enumerate(todo):
            known[key] = [float(x) for x in self.intact(partial(self._profile, method, request))]
            if i + 1 == len(todo) or todo[i + 1][1].chunks != request.chunks:
                self._forget(request)
        if todo:
            write_atomically(path, json.dumps({"method": method.name, "rows": known}))
        return [known[key] for key in keys]

    def _forget(self, request: Request) -> None:
        """Drop the chunk caches of a calibration request: nothing that is measured reads them."""
        for ids in request.chunks:
            key = chunk_key(self.revision, str(self.engine.dtype), self._behind(request), ids)
            if key in self.store:
                self.store.drop(key)


def _key(request: Request) -> str:
    """What of a request its profile depends on."""
    parts = f"{request.sha256} {request.evidence} {request.question}"
    return hashlib.sha256(parts.encode()).hexdigest()[:32]
