"""ProphetKV (arXiv 2602.02579): full-view query-aware selection."""

from dataclasses import dataclass

import torch

from bench.kernels.attention_mass import Reduce
from bench.method import Method, Request, Softmax, View, top


@dataclass
class ProphetKV(Method):
    """The user query attends to the whole stitched cache; attention is summed over all layers.

    QCFuse, eq. 9 to 11. The probe reads keys and values of every layer before recomputation can
    start: that is what blocks the layer-wise pipeline. Sum and mean over layers rank alike. There is no
    official code; a reproduction (ModelEngine-Group/unified-cache-management) leaves the query's own
    keys out of the softmax (`query_keys=false`), which weighs query tokens differently.
    """

    heads: Reduce = "mean"
    tokens: Reduce = "mean"
    query_keys: bool = True

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Top positions by I(t), the sum over layers of the attention mass on t."""
        states = view.probe("all")
        softmax: Softmax = "global" if self.query_keys else "context"
        importance = [
            view.attention(states, layer, heads=self.heads, tokens=self.tokens, softmax=softmax)
            for layer in range(view.layers)
        ]
        return top(torch.stack(importance).sum(0), budget)


METHOD = ProphetKV
