"""EPIC (arXiv 2410.15332): LegoLink, a static rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from bench.method import Method, Request, View, per_chunk


@dataclass
class Epic(Method):
    """The first tokens of every chunk, which act as attention sinks once chunks are linked.

    Under a sweep of rho the number k of initial tokens follows the budget, k_i = rho |c_i| (QCFuse,
    section 4.1.3: same ratios for all methods). EPIC's own k is fixed, at most 32: `tokens=32`, one
    point, not swept. Released code (DerekHJH/epic, benchmarks_ours/evals/e2e/main.py): initial tokens
    only, at all layers, and none of the first chunk; each chunk is cached behind a BOS token, which is
    a setting of the store here (`chunk_prefix`), the same for all methods of a run.
    """

    released: ClassVar[Mapping[str, Any]] = {"tokens": 32, "first_chunk": False}

    tokens: int | None = None
    first_chunk: bool = True

    def nominal(self, chunks: int, chunk_tokens: int) -> float | None:
        """Where k is fixed: k / |c|, of the chunks that take part."""
        if self.tokens is None:
            return None
        return min(1.0, self.tokens / chunk_tokens) * (1 if self.first_chunk else (chunks - 1) / chunks)

    def budget(self, request: Request, rho: float) -> int:
        """k tokens a chunk, or the whole of a shorter one, where k is fixed."""
        return super().budget(request, rho) if self.tokens is None else sum(self.fixed(request, self.tokens))

    def fixed(self, request: Request, k: int) -> list[int]:
        """k for each chunk that takes part."""
        return [min(k, len(c)) if i or self.first_chunk else 0 for i, c in enumerate(request.chunks)]

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """The first k_i positions of chunk i, for every chunk."""
        if self.tokens is None:
            shares = per_chunk(request, budget, without_first=not self.first_chunk)
        else:
            shares = self.fixed(request, self.tokens)
        starts = zip(request.chunk_starts, shares, strict=True)
        return torch.cat([torch.arange(start, start + k) for start, k in starts])


METHOD = Epic
