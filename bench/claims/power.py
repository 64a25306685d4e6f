"""Whether rows could have shown a claim: the requests that it needs.

The standard error is that of the paired bootstrap, read off the 95 % interval; it falls with the square root
of the requests. A true effect `delta` beyond the threshold is then shown with the power 1 - beta where

    delta >= (z[0.975] + z[1 - beta]) * standard error

in the normal approximation of the interval's bound.
"""

from __future__ import annotations

from math import ceil, floor, inf, isfinite, log, log10, nan
from statistics import NormalDist

from bench.claims.file import Claim
from bench.claims.measure import Estimate
from bench.metrics.bootstrap import LEVEL

POWER = 0.8
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
REACH = Z + NormalDist().inv_cdf(POWER)
"""Standard errors between threshold and true value with which the interval clears it in 80 % of runs."""


def requests_needed(claim: Claim, found: Estimate, n: int) -> float:
    """The requests with which a true `claim.assumed` is shown with 80 % power, from an estimate over `n`.

    NaN where the claim assumes no value or the interval has no finite end. Ratios count on the log scale.
    """
    assumed = claim.assumed
    if assumed is None or not (isfinite(found.low) and isfinite(found.high)):
        return nan
    ends = [end for end in claim.threshold if isfinite(end)]
    numbers = [found.low, found.high, assumed, *ends]
    if claim.measure.logarithmic:
        if min(numbers) <= 0:
            return nan
        numbers = [log(number) for number in numbers]
    low, high, true, *edges = numbers
    delta = min(abs(true - edge) for edge in edges)
    if found.tied:  # the interval is 3 / n to both sides, not a share of a standard error
        return 3 / delta if delta else inf
    error = (high - low) / (2 * Z)
    return n * (REACH * error / delta) ** 2 if delta else inf


def about(number: float) -> str:
    """A number of requests to two digits, rounded up: "about 1,100"."""
    if not isfinite(number):
        return "more than any number"
    unit = 10 ** max(0, floor(log10(max(number, 1))) - 1)
    return f"about {max(1, ceil(number / unit) * unit):,}"
