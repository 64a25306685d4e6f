"""Full prefill with nothing cached: what a first request costs."""

from dataclasses import dataclass
from typing import ClassVar

from bench.method import Method


@dataclass
class ColdPrefill(Method):
    """Everything is computed, the instruction S too (eq. 2): an operating point, no reference.

    Speed-ups are over `full_prefill`, which has S cached as every other method has.
    """

    uses_cache: ClassVar[bool] = False
    prefix_cached: ClassVar[bool] = False
    rho: ClassVar[float | None] = 1.0


METHOD = ColdPrefill
