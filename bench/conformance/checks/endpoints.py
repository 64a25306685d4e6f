"""The two ends of a sweep, which every method shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from bench.conformance.outcome import Broken, Skipped
from bench.conformance.stand import TOLERANCE, Stand
from bench.method import Method, Request, View


@dataclass
class _Nothing(Method):
    rho: ClassVar[float | None] = 0.0

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        return torch.arange(0)


def rho_1_equals_full_prefill(stand: Stand) -> None:
    """With every position recomputed, logits, keys and values are full prefill's, within fp32's rounding.

    Garbled output after re-rotating keys, q/k-norm left out and unsupported rope scaling went unnoticed
    where nobody had this gate (LMCache issues 4666, 1121, 242).
    """
    request = stand.request()
    if stand.nominal not in (None, 1.0):
        raise Skipped("its rho is its own, and not 1")
    with stand.setup() as setup:
        run = setup.run(request, 1.0)
    if len(run.positions[-1]) != request.context_tokens:
        raise Skipped("it leaves a chunk out at its own rho of 1")
    off = run.off(stand.full_prefill(request))
    if not off <= TOLERANCE:
        where = "narrow()" if stand.narrows else "select()"
        raise Broken(f"logits, keys or values are off by {off:.2g}, at most {TOLERANCE:g} is rounding", where)


def k_0_equals_direct_reuse(stand: Stand) -> None:
    """With a budget of no position the stitched caches stay as they are, at every layer.

    A ratio that yields k = 0 is a real point of short contexts; codes that take at least one token, or
    that refresh a first layer regardless, compute there all the same (LMCache issue 305).
    """
    request = stand.request()
    if not stand.method.uses_cache:
        raise Skipped("it reads no cache")
    if stand.nominal not in (None, 0.0):
        raise Skipped("its rho is its own, and not 0")
    with stand.setup() as setup:
        reuse = setup.run(request, method=_Nothing())
        for rho in (0.0, 0.01) if stand.nominal is None else (0.0,):
            budget = setup.budget(request, rho)
            if budget:
                raise Broken(f"a budget of {budget} at rho {rho}", "budget()")
            run = setup.run(request, rho)
            if any(len(rows) for rows in run.positions):
                rows = [len(rows) for rows in run.positions]
                raise Broken(f"rows a layer {rows} for a budget of no position", "select()")
            if run.off(reuse):
                raise Broken(f"logits, keys or values are off by {run.off(reuse):.2g}", "select()")
