"""FusionRAG (arXiv 2601.12904): the final layer's query-to-context attention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from bench.method import Method, Request, View, top


@dataclass
class FusionRAG(Method):
    """A query-only probe, scored against the cached keys of the last layer (QCFuse, section 2.2.2).

    The default is the baseline of QCFuse's comparison (uYanJX/QCFuse, config `fuserag`): the query sees
    the instruction only, softmax over the whole context. FusionRAG's own code (qiyuxinlin/FusionRAG,
    util/utils) lets the question's tokens see the whole loaded cache and normalises inside each chunk;
    earlier it left the first document out (`first_chunk=false`). The offline preprocessing with similar
    passages is left out, as in QCFuse's comparison.
    """

    released: ClassVar[Mapping[str, Any]] = {"probe": "all", "softmax": "chunk", "question_only": True}

    probe: Literal["query", "all"] = "query"
    softmax: Literal["global", "chunk"] = "global"
    question_only: bool = False
    first_chunk: bool = True

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """The positions with the largest final-layer attention."""
        last = view.layers - 1
        context = None if self.probe == "query" else "all"
        states = view.probe(context, fetch=[last], question_only=self.question_only)
        importance = view.attention(states, last, softmax=self.softmax)
        if not self.first_chunk:  # last, for budgets that nothing else can fill
            importance = importance.index_fill(
                0, torch.arange(len(request.chunks[0]), device=importance.device), -1
            )
        return top(importance, budget)


METHOD = FusionRAG
