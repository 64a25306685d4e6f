"""Seeded percentile bootstrap over requests (Efron, "Bootstrap methods", Ann. Stat. 7, 1979).

Why not `scipy.stats.bootstrap`: it draws anew on every call, and a full grid of models, datasets,
methods and rho asks for some two thousand intervals. Here the draws for n requests are made once
and shared, which also gives the same request the same weight in every method. `test_bootstrap.py`
holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

DRAWS = 10_000
LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate over n requests and its 95 % interval, in the units of the values.

    NaN throughout for n = 0; `low` and `high` are NaN for n = 1, where a bootstrap knows nothing.
    """

    value: float
    low: float
    high: float
    n: int

    def text(self, form: str) -> str:
        """ "0.750 [0.600, 0.900]", each number in a format such as ".3f"; "–" for what is not known."""
        if np.isnan(self.value):
            return "–"
        if np.isnan(self.low):
            return f"{self.value:{form}}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


NOTHING = Interval(float("nan"), float("nan"), float("nan"), 0)


@lru_cache(maxsize=8)
def draws(n: int, seed: int = 0, count: int = DRAWS) -> NDArray[np.intp]:
    """Indices of `count` resamples of n requests, with replacement: shape (count, n), read-only."""
    indices = np.random.default_rng(seed).integers(0, n, size=(count, n), dtype=np.intp)
    indices.setflags(write=False)
    return indices


def resampled_means(values: Floats, seed: int = 0, count: int = DRAWS) -> Floats:
    """The mean of each resample of `values`: shape (count,)."""
    means: Floats = values[draws(len(values), seed, count)].mean(axis=1)
    return means


def resampled_medians(values: Floats, seed: int = 0, count: int = DRAWS) -> Floats:
    """The median of each resample of `values`: shape (count,)."""
    n = len(values)
    order = np.argsort(values, kind="stable")
    # the median's place among the sorted values, from running weights: no sort for every draw
    running = np.cumsum(_weights(n, seed, count)[order], axis=0, dtype=np.int32)
    lower = (running <= (n - 1) // 2).sum(axis=0)
    upper = (running <= n // 2).sum(axis=0)
    ranked = values[order]
    medians: Floats = (ranked[lower] + ranked[upper]) / 2
    return medians


def percentile_interval(value: float, resampled: Floats, n: int) -> Interval:
    """The estimate with the 2.5 % and 97.5 % percentiles of its resamples; NaN ones are left out."""
    if n < 2 or np.isnan(resampled).all():
        return Interval(value, float("nan"), float("nan"), n)
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(resampled, [tail, 1 - tail])
    return Interval(value, float(low), float(high), n)


def mean_interval(values: ArrayLike, seed: int = 0) -> Interval:
    """The mean of `values` (one a request, NaN left out) with its 95 % percentile interval."""
    known = _known(values)
    if not len(known):
        return NOTHING
    return percentile_interval(float(known.mean()), resampled_means(known, seed), len(known))


def median_interval(values: ArrayLike, seed: int = 0) -> Interval:
    """The median of `values` (one a request, NaN left out) with its 95 % percentile interval."""
    known = _known(values)
    if not len(known):
        return NOTHING
    return percentile_interval(float(np.median(known)), resampled_medians(known, seed), len(known))


def paired_difference(a: pd.Series, b: pd.Series, seed: int = 0) -> Interval:
    """mean(a - b) over the requests that both have, with its 95 % interval.

    Both are indexed by request id. Raises `ValueError` where a request id comes twice.
    """
    left, right = paired(a, b)
    return mean_interval(left - right, seed)


def paired_ratio(a: pd.Series, b: pd.Series, seed: int = 0) -> Interval:
    """median(a) / median(b) over the requests that both have, with its 95 % interval.

    Every draw takes the same requests on both sides. The ratio of medians, not exp(mean log
    ratio): it is the ratio of the two points a reader sees on the TTFT axis. Both are indexed by
    request id. Raises `ValueError` where a request id comes twice; NaN where median(b) is 0.
    """
    return ratio_of_medians([a], [b], seed)


def ratio_of_medians(top: Sequence[pd.Series], bottom: Sequence[pd.Series], seed: int = 0) -> Interval:
    """As `paired_ratio`, of products of medians: over the requests that all of them have."""
    both = paired(*top, *bottom)
    if not len(both[0]):
        return NOTHING
    lines = [np.concatenate(([np.median(x)], resampled_medians(x, seed))) for x in both]
    ratios = ratio(np.prod(lines[: len(top)], axis=0), np.prod(lines[len(top) :], axis=0))
    return percentile_interval(float(ratios[0]), ratios[1:], len(both[0]))


def paired(*series: pd.Series) -> list[Floats]:
    """The values of the requests known to all, in the order of their sorted ids."""
    for one in series:
        if one.index.has_duplicates:
            raise ValueError(f"request {one.index[one.index.duplicated()][0]!r} comes twice")
    both = pd.DataFrame(dict(enumerate(series))).dropna().sort_index()
    return [both[i].to_numpy(dtype=np.float64) for i in range(len(series))]


def ratio(top: Floats, bottom: Floats) -> Floats:
    """top / bottom, NaN where bottom is 0."""
    quotient = np.full(np.shape(top), np.nan)
    np.divide(top, bottom, out=quotient, where=bottom != 0)
    return quotient


@lru_cache(maxsize=8)
def _weights(n: int, seed: int, count: int) -> NDArray[np.int32]:
    """How often each request comes in each draw: shape (n, count)."""
    rows = np.arange(count)[:, None] * n
    counts = np.bincount((draws(n, seed, count) + rows).ravel(), minlength=count * n)
    return np.ascontiguousarray(counts.reshape(count, n).T, dtype=np.int32)


def _known(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[~np.isnan(array)]
