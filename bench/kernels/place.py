"""Where a request's positions lie in a pool of keys and values."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Place:
    """Slots of request positions 0..n-1: `at` [n] int64, and `run` where they are consecutive."""

    at: torch.Tensor
    run: slice | None = field(init=False)
    positions: torch.Tensor = field(init=False)
    """0..n-1, on the slots' device."""

    def __post_init__(self) -> None:
        first, n = int(self.at[0]), len(self.at)
        consecutive = bool((self.at.diff() == 1).all())
        object.__setattr__(self, "run", slice(first, first + n) if consecutive else None)
        object.__setattr__(self, "positions", torch.arange(n, device=self.at.device))

    def of(self, pool: torch.Tensor) -> torch.Tensor:
        """The positions' rows of a pool [slots, ...]: a view where they are consecutive, else a copy."""
        return pool[self.at if self.run is None else self.run]
