"""Full prefill: the quality reference."""

from dataclasses import dataclass
from typing import ClassVar

from bench.method import Method


@dataclass
class FullPrefill(Method):
    """The context and the query are computed under the current request: SGLang's own prefill (eq. 2).

    The instruction S is cached, as every serving engine caches a shared prefix.
    """

    uses_cache: ClassVar[bool] = False
    rho: ClassVar[float | None] = 1.0


METHOD = FullPrefill
