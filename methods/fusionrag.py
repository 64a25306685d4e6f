"""FusionRAG (arXiv 2601.12904): the final layer's query-to-context attention."""

from dataclasses import dataclass
from typing import Literal

import torch

from bench.method import Method, Request, View, top


@dataclass
class FusionRAG(Method):
    """A query-only probe, scored against the cached keys of the last layer (QCFuse, section 2.2.2).

    `softmax="chunk"` normalises inside each chunk, as the released code does (qiyuxinlin/FusionRAG,
    util/utils); "global" is QCFuse's own baseline (uYanJX/QCFuse, config `fuserag`). `probe="all"` lets
    the query see the whole loaded cache (the later released version). The offline preprocessing
    with similar passages is left out, as in QCFuse's comparison.
    """

    probe: Literal["query", "all"] = "query"
    softmax: Literal["global", "chunk"] = "global"

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """The positions with the largest final-layer attention."""
        last = view.layers - 1
        states = view.probe(None if self.probe == "query" else "all", fetch=[last])
        return top(view.attention(states, last, softmax=self.softmax), budget)


METHOD = FusionRAG
