"""CacheBlend (EuroSys 2025): the tokens whose cached keys and values deviate most."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from bench.kernels.selected_attention import Mask
from bench.method import KV, Method, Request, View, top


@dataclass
class CacheBlend(Method):
    """High-KV-deviation tokens: recompute all in the first layers, keep those that deviate most.

    The deviation of a token is the squared difference between its fresh and its cached entries, summed
    over heads and channels (arXiv 2405.16444, section 4.2). Layer 0 never differs (it depends on
    embeddings only), so the first layer that tells is 1. The paper filters gradually (section 4.3):
    slightly more tokens than the budget after the first check, fewer after the next; here `steps`
    checks, from `widest` times the budget down to the budget, which is what the later layers cost.

    Released code: V alone, layer 1, a single top-k, and a bottom-right aligned mask that lets selected
    tokens see the future (YaoJiayi/CacheBlend, vllm/attention/backends/xformers.py; issue 21). LMCache
    scores K after RoPE (lmcache/v1/compute/blend/blender.py): `signal=K,filtering=single,mask=released`.
    There the query may compete for the budget; here it is always fresh and never counted.
    """

    released: ClassVar[Mapping[str, Any]] = {"signal": "V", "filtering": "single", "mask": "released"}

    signal: Literal["V", "K", "KV"] = "KV"
    check_layer: int = 1
    filtering: Literal["gradual", "single"] = "gradual"
    steps: int = 2
    widest: float = 1.2
    mask: Mask = "exact"

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Every position enters layer 0; `narrow` keeps the budget."""
        return torch.arange(request.context_tokens if budget else 0)

    def narrow(
        self, layer: int, fresh: KV, cached: KV, positions: torch.Tensor, budget: int
    ) -> torch.Tensor | None:
        """At a check layer, the positions with the largest deviation."""
        keep = self.keep(layer - self.check_layer, budget)
        if keep is None or len(positions) <= keep:
            return None
        deviation = torch.zeros(len(positions), device=positions.device)
        if "V" in self.signal:
            deviation += (fresh.values.float() - cached.values.float()).square().sum((1, 2))
        if "K" in self.signal:
            deviation += (fresh.keys.float() - cached.keys.float()).square().sum((1, 2))
        return positions[top(deviation, keep)]

    def keep(self, check: int, budget: int) -> int | None:
        """How many positions go on after check number `check`; None where there is none."""
        checks = 1 if self.filtering == "single" else self.steps
        if not 0 <= check < checks:
            return None
        left = (checks - 1 - check) / max(1, checks - 1)
        return round(budget * (1 + (self.widest - 1) * left)) if checks > 1 else budget


METHOD = CacheBlend
