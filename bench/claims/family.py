"""All claims judged on the same rows, seen as one family (Holm, Scand. J. Stat. 6, 1979)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, isnan, nan
from statistics import NormalDist

from bench.claims.file import Claim
from bench.claims.measure import Estimate
from bench.claims.power import Z
from bench.claims.verdict import PARTLY, REPRODUCED, Verdict
from bench.metrics.bootstrap import LEVEL

LEAST = 2 / 1_001
"""The least p-value of a number at no finite distance from its threshold: what 1,000 draws can show."""


def p_value(claim: Claim, found: Estimate) -> float:
    """The two-sided p-value of an estimate against its claim's threshold; NaN without an estimate.

    That of a normal distribution whose 95 % interval ends where the bootstrap's does on its side:
    below 0.05 exactly where the interval leaves the threshold out. Inside a range it is the larger one of its
    two ends.
    """
    if isnan(found.value) or isnan(found.low) or isnan(found.high):
        return nan
    if found.p is not None:
        return found.p
    low, high = claim.threshold
    outside = [end for end in (low, high) if isfinite(end)]
    if low <= found.value <= high:
        return max(_p(found, end) for end in outside)
    return min(_p(found, end) for end in outside)


def with_family(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, `survives_holm` of the reproduced ones filled in: at 5 % over all that have a p-value."""
    order = sorted((i for i, one in enumerate(verdicts) if not isnan(one.p)), key=lambda i: verdicts[i].p)
    surviving: set[int] = set()
    for rank, place in enumerate(order):
        if verdicts[place].p > (1 - LEVEL) / (len(order) - rank):
            break
        surviving.add(place)
    return [
        replace(one, survives_holm=place in surviving) if one.verdict in (REPRODUCED, PARTLY) else one
        for place, one in enumerate(verdicts)
    ]


def family_line(verdicts: Sequence[Verdict]) -> str:
    """Which of the reproduced claims stay so beside all others judged on these rows; "" where none is."""
    judged = [one for one in verdicts if not isnan(one.p)]
    shown = [one for one in verdicts if one.survives_holm is not None]
    if not shown:
        return ""
    lost = [one.id for one in shown if not one.survives_holm]
    text = (
        f"Taken together (Holm at 5 % over the {len(judged)} claims judged on these rows), "
        f"{len(shown) - len(lost)} of the {len(shown)} reproduced, in part or wholly, remain"
    )
    return text + (f"; not {', '.join(lost)}." if lost else ".")


def _p(found: Estimate, end: float) -> float:
    if not isfinite(found.value):
        beyond = found.low > end or found.high < end
        return LEAST if beyond else 1.0
    gap = abs(found.value - end)
    arm = found.value - found.low if found.value > end else found.high - found.value
    if not isfinite(arm) or gap == 0:
        return 1.0
    return 2 * (1 - NormalDist().cdf(Z * gap / arm)) if arm > 0 else 0.0
