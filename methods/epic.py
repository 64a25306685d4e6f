"""EPIC (arXiv 2410.15332): LegoLink, a static rule."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View, per_chunk


@dataclass
class Epic(Method):
    """The first tokens of every chunk, which act as attention sinks once chunks are linked.

    The paper recomputes a fixed number k <= 32 of initial tokens a chunk; under a sweep of rho k
    follows the budget, k_i = rho |c_i| (QCFuse, section 4.1.3: same ratios for all methods). Released
    code (DerekHJH/epic, benchmarks_ours/evals/e2e/main.py): initial tokens only, at all layers.
    """

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """The first k_i positions of chunk i, for every chunk."""
        starts = zip(request.chunk_starts, per_chunk(request, budget), strict=True)
        return torch.cat([torch.arange(start, start + k) for start, k in starts])


METHOD = Epic
