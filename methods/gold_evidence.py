"""Gold evidence: what a selector that knows the answer would choose."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View


@dataclass
class GoldEvidence(Method):
    """Control: the answer-bearing tokens and what stands nearest to them, on either side.

    With a small budget the answers' own words, with a larger one the sentences around them.
    """

    def skip(self, request: Request) -> str | None:
        """Only where the dataset knows which tokens bear the answer."""
        return None if request.evidence else "the dataset does not say where the answer stands"

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Positions by their distance to the nearest answer-bearing token."""
        gold = torch.tensor(request.evidence)
        distance = (torch.arange(request.context_tokens)[:, None] - gold[None, :]).abs().amin(1)
        return distance.argsort(stable=True)[:budget]


METHOD = GoldEvidence
