"""A request: token ids, made once and shared by every method (QCFuse, section 2.1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np


@dataclass(frozen=True)
class Request:
    """One RAG request [S; c_1; ...; c_m; U] as token ids.

    `prefix` is the instruction S, `chunks` the retrieved context C, `query` the user query U
    (with the answer cue and the assistant header). Positions in C are *context positions*,
    0 <= t < N; the token at context position t sits at request position len(prefix) + t.
    """

    id: str
    dataset: str
    prefix: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    query: tuple[int, ...]
    references: tuple[str, ...]
    max_new_tokens: int
    evidence: tuple[int, ...] = field(default=())
    """Context positions of the answer-bearing tokens, where the dataset knows them."""

    needles: tuple[int, ...] = field(default=())
    """Context positions of the spans in which the answer is told, evidence included, where the dataset
    knows them; methods have no use for them."""

    question: tuple[int, int] = (0, 0)
    """Where the question's own text lies in `query`, from and to (exclusive); (0, 0): not known."""

    @cached_property
    def ids(self) -> list[int]:
        """All token ids in order: what full prefill runs."""
        return [*self.prefix, *(t for c in self.chunks for t in c), *self.query]

    @cached_property
    def context_tokens(self) -> int:
        """N, the number of context tokens."""
        return sum(map(len, self.chunks))

    @cached_property
    def chunk_starts(self) -> tuple[int, ...]:
        """Context position of each chunk's first token."""
        return tuple(accumulate((len(c) for c in self.chunks[:-1]), initial=0))

    @cached_property
    def sha256(self) -> str:
        """Hash of the ids and of where the segments end (hex)."""
        ends = [len(self.prefix), *map(len, self.chunks), len(self.query)]
        return hashlib.sha256(np.asarray([len(ends), *ends, *self.ids], dtype="<i8").tobytes()).hexdigest()
