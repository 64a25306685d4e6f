"""Synthetic rows of a bandwidth sweep. Invented numbers: they never leave a temporary folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.results.schema import Row
from tests._rows import make_row

UNIT = 20e6
"""Bytes a second of 1x."""


def times(ttft: float, select: float = 0.0, wait: float = 0.0, load: float = 0.0) -> dict[str, float]:
    """The time fields of a row, first token 0.05 s; recomputation takes what is left."""
    return {
        "ttft_s": ttft, "select_s": select, "select_wait_s": wait, "load_s": load, "first_token_s": 0.05,
        "recompute_s": ttft - select - load - 0.05,
    }  # fmt: skip


def throttled(x: float | None) -> dict[str, Any]:
    """The bandwidth fields of a row at `x` times the unit; None for no throttle."""
    if x is None:
        return {"bandwidth": "none", "bandwidth_unit": UNIT}
    return {"bandwidth": f"{x:g}x", "bandwidth_bytes_per_s": x * UNIT, "bandwidth_unit": UNIT}


def curve(method: str, ttfts: Mapping[float | None, Sequence[float]], **fields: Any) -> list[Row]:
    """A method's rows: at every x the TTFT of each request."""
    return [
        make_row(
            method=method, request=f"r{i}", **{"rho": 0.5} | throttled(x) | times(ttft, 0.3 * ttft) | fields
        )
        for x, values in ttfts.items()
        for i, ttft in enumerate(values)
    ]


def full(values: Sequence[float], **fields: Any) -> list[Row]:
    """Full prefill's rows."""
    return [
        make_row(method="full_prefill", rho=1.0, request=f"r{i}", **throttled(None) | times(ttft) | fields)
        for i, ttft in enumerate(values)
    ]


SELECT_SHARE = {"prophetkv": 0.97, "qcfuse": 0.12, "fusionrag": 0.03}
"""Share of the cache read before fusion."""


def sweep(
    xs: Sequence[float | None], methods: Sequence[str] = ("prophetkv", "qcfuse"), n: int = 10, **fields: Any
) -> list[Row]:
    """A run with the shape of the paper's Fig. 13; full prefill takes a second."""
    rng = np.random.default_rng(5)
    noise = rng.lognormal(0, 0.03, n)
    rows = full(list(noise * rng.lognormal(0, 0.01, n)), **fields)
    for method in methods:
        share = SELECT_SHARE.get(method, 0.0)
        rho = 0.0 if method == "direct_reuse" else 0.5
        for x in xs:
            load = 0.0 if x is None else 1 / x
            for i in range(n):
                jitter = noise[i] * rng.lognormal(0, 0.02)
                probe = 0.18 * share * jitter
                wait = max(share * load - 0.2 * probe, 0.0)
                compute = (0.05 + 0.9 * rho * 0.8) * jitter
                left = max((1 - share) * load - compute, 0.01)
                select = probe + wait
                total = select + left + compute + 0.05
                rows.append(
                    make_row(
                        method=method,
                        request=f"r{i}",
                        **{"rho": rho} | throttled(x) | times(total, select, wait, left) | fields,
                    )
                )
    return rows
