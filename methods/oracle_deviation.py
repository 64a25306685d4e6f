"""Oracle deviation: what CacheBlend's signal would choose if it knew full prefill's cache."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View, top


@dataclass
class OracleDeviation(Method):
    """Control: the tokens whose cached keys and values differ most from full prefill's, at any layer.

    Squared differences, each layer's keys and values in units of full prefill's mean square there, so
    that no layer outweighs the others, summed. It runs a full prefill to know: its TTFT means nothing.
    """

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Top positions by the true difference."""
        total = torch.zeros(request.context_tokens)
        for layer in range(view.layers):
            exact = view.exact(layer)
            for true, cached in ((exact.keys, view.keys(layer)), (exact.values, view.values(layer))):
                off = (true.float() - cached.float()).square().sum((1, 2))
                total += (off / true.float().square().mean()).cpu()
        return top(total, budget)


METHOD = OracleDeviation
