"""The recomputation ratio as it was done beside the one asked for (`rho_effective`, docs/metrics.md)."""

from __future__ import annotations

import pandas as pd

from bench.results.points import PREFILLS

SAME = 0.005
"""Ratios closer than this are one: they would read the same at two digits."""


def differs(rho: float, effective: float) -> bool:
    """Whether the effective ratio is known and another one than `rho`."""
    return not pd.isna(effective) and abs(rho - effective) > SAME


def ratio_text(rho: float, effective: float) -> str:
    """ "0.3", or "0.3 (0.36)" where the effective ratio is another one."""
    return f"{rho:g} ({effective:.2f})" if differs(rho, effective) else f"{rho:g}"


def effective_of(points: pd.DataFrame) -> float:
    """The effective ratio of lines of a summary: the mean over datasets, each weighing the same."""
    return float(points.groupby(["model", "dataset"])["rho_effective"].mean().mean())


def other_ratios(points: pd.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """By variant: (ρ, effective ratio) of every ρ at which the two differ, over all datasets of a summary."""
    found: dict[str, list[tuple[float, float]]] = {}
    for (variant, rho), some in points[~points["method"].isin(PREFILLS)].groupby(["variant", "rho"]):
        effective = effective_of(some)
        if differs(float(str(rho)), effective):
            found.setdefault(str(variant), []).append((float(str(rho)), effective))
    return found
