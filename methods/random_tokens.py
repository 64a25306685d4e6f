"""Random tokens: the control every selector has to beat at the same budget."""

import random
from dataclasses import dataclass

import torch

from bench.method import Method, Request, View


@dataclass
class RandomTokens(Method):
    """Control: positions drawn uniformly, the same for a request whenever it is asked for."""

    seed: int = 0

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """A uniform draw without replacement, seeded by the request's own hash."""
        draw = random.Random(f"{self.seed}:{request.sha256}")
        return torch.tensor(draw.sample(range(request.context_tokens), budget), dtype=torch.int64)


METHOD = RandomTokens
