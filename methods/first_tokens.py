"""First tokens: a control that looks at nothing."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View


@dataclass
class FirstTokens(Method):
    """Control: the first positions of the context. The first chunk is the least stale one."""

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """0..budget-1."""
        return torch.arange(budget)


METHOD = FirstTokens
