"""CacheBlend (EuroSys 2025): the tokens whose cached values deviate most."""

from dataclasses import dataclass
from typing import Literal

import torch

from bench.method import KV, Method, Request, View, top


@dataclass
class CacheBlend(Method):
    """High-KV-deviation tokens: recompute all in the first layers, keep those that deviate most.

    The deviation of a token is the squared difference between fresh and cached entries at
    `check_layer`, summed over heads and channels. Layer 0 never differs (it depends on embeddings
    only), so the first layer that tells is 1. Released code (YaoJiayi/CacheBlend,
    vllm/attention/backends/xformers.py): V alone, layer 1, one top-k. The paper filters gradually
    over several layers; here the set shrinks once.
    """

    signal: Literal["V", "K", "KV"] = "V"
    check_layer: int = 1

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Every position enters layer 0; `narrow` keeps the budget."""
        return torch.arange(request.context_tokens if budget else 0)

    def narrow(
        self, layer: int, fresh: KV, cached: KV, positions: torch.Tensor, budget: int
    ) -> torch.Tensor | None:
        """At the check layer, the positions with the largest deviation."""
        if layer != self.check_layer or len(positions) <= budget:
            return None
        deviation = torch.zeros(len(positions), device=positions.device)
        if "V" in self.signal:
            deviation += (fresh.values.float() - cached.values.float()).square().sum((1, 2))
        if "K" in self.signal:
            deviation += (fresh.keys.float() - cached.keys.float()).square().sum((1, 2))
        return positions[top(deviation, budget)]


METHOD = CacheBlend
