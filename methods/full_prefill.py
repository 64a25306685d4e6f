"""Full prefill: the quality reference."""

from dataclasses import dataclass
from typing import ClassVar

from bench.method import Method


@dataclass
class FullPrefill(Method):
    """Everything is computed under the current request: SGLang's own prefill, no cache (eq. 2)."""

    uses_cache: ClassVar[bool] = False
    rho: ClassVar[float | None] = 1.0


METHOD = FullPrefill
