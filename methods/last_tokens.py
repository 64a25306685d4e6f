"""Last tokens: a control that looks at nothing."""

from dataclasses import dataclass

import torch

from bench.method import Method, Request, View


@dataclass
class LastTokens(Method):
    """Control: the last positions of the context. The last chunk lacks the most context when cached."""

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """N-budget..N-1."""
        return torch.arange(request.context_tokens - budget, request.context_tokens)


METHOD = LastTokens
