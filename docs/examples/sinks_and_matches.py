"""Sinks and matches: the example method of docs/add-a-method.md."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View, per_chunk, top


@dataclass
class SinksAndMatches(Method):
    """Some of the budget for each chunk's first tokens, the rest for what the query attends to.

    The first tokens repair the links between chunks (as EPIC does), the others the evidence. The probe runs
    without the context and stops at one layer, so that this layer's keys are all it reads.
    """

    share: float = 0.5
    depth: float = 0.6

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """The sinks first; then, of the other positions, those with the largest attention mass."""
        counts = per_chunk(request, int(self.share * budget))
        starts = zip(request.chunk_starts, counts, strict=True)
        sinks = torch.cat([torch.arange(start, start + count) for start, count in starts])

        layer = int(self.depth * (view.layers - 1))
        states = view.probe(None, last_layer=layer, fetch=[layer])
        mass = view.attention(states, layer).cpu().index_fill(0, sinks, -1)  # chosen already
        return torch.cat((sinks, top(mass, budget - len(sinks))))


METHOD = SinksAndMatches
