"""Direct PIC reuse: the low-TTFT endpoint (QCFuse, section 2.1.2)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from bench.method import Method, Request, View


@dataclass
class DirectReuse(Method):
    """Stitched chunk caches as they are; only the user query is computed (eq. 4)."""

    rho: ClassVar[float | None] = 0.0

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """No position."""
        return torch.arange(0)


METHOD = DirectReuse
