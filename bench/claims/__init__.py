"""The paper's claims, held against the rows of finished runs (`bench/claims.yaml`, docs/claims.md)."""

from bench.claims.judging import judge
from bench.claims.verdict import Verdict

__all__ = ["Verdict", "judge"]
