"""The bootstrap: against SciPy, against hand-made cases, and what must always hold."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metrics.bootstrap import (
    Interval,
    draws,
    mean_interval,
    median_interval,
    paired_difference,
    paired_ratio,
    ratio_of_medians,
    resampled_medians,
)

values = st.lists(st.floats(0, 100), min_size=2, max_size=12)


@pytest.mark.parametrize(("ours", "statistic"), [(mean_interval, np.mean), (median_interval, np.median)])
def test_agrees_with_scipy(ours, statistic) -> None:  # type: ignore[no-untyped-def]
    data = np.random.default_rng(3).normal(10, 2, 40)
    theirs = scipy.stats.bootstrap(
        (data,), statistic, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    interval = ours(data)
    assert interval.value == pytest.approx(statistic(data))
    assert interval.low == pytest.approx(theirs.low, abs=0.1)
    assert interval.high == pytest.approx(theirs.high, abs=0.1)


def test_two_values_by_hand() -> None:
    # a resample of {0, 1} has mean 0 or 1 with probability 1/4 each: far more than 2.5 %
    interval = mean_interval([0.0, 1.0])
    assert (interval.value, interval.low, interval.high, interval.n) == (0.5, 0.0, 1.0, 2)


@given(values)
@settings(max_examples=20, deadline=None)
def test_medians_are_numpys(data: list[float]) -> None:
    array = np.array(data)
    expected = np.median(array[draws(len(data), 7, 50)], axis=1)
    assert resampled_medians(array, 7, 50) == pytest.approx(expected)


@given(values)
@settings(max_examples=20, deadline=None)
def test_interval_lies_within_the_values(data: list[float]) -> None:
    for interval in (mean_interval(data), median_interval(data)):
        assert min(data) - 1e-9 <= interval.low <= interval.high <= max(data) + 1e-9


def test_seeded() -> None:
    data = np.random.default_rng(0).normal(size=30)
    assert mean_interval(data, seed=1) == mean_interval(data, seed=1)
    assert mean_interval(data, seed=1) != mean_interval(data, seed=2)


def test_nothing_and_one() -> None:
    assert math.isnan(mean_interval([]).value)
    assert mean_interval([float("nan")]).n == 0
    one = median_interval([4.0])
    assert one.value == 4.0
    assert math.isnan(one.low)


def test_pairs_by_request_id_not_by_place() -> None:
    a = pd.Series({"x": 3.0, "y": 5.0, "only a": 99.0})
    b = pd.Series({"y": 4.0, "x": 2.0, "only b": -7.0})
    difference = paired_difference(a, b)
    assert (difference.value, difference.low, difference.high, difference.n) == (1.0, 1.0, 1.0, 2)


def test_ratio_of_medians_is_exact_where_one_is_twice_the_other() -> None:
    b = pd.Series(np.random.default_rng(0).uniform(1, 9, 25))
    interval = paired_ratio(2 * b, b)
    # unpaired draws would have a wide interval here
    assert (interval.value, interval.low, interval.high) == pytest.approx((2.0, 2.0, 2.0))


def test_ratio_of_medians_not_median_of_ratios() -> None:
    a, b = pd.Series([1.0, 4.0, 10.0]), pd.Series([1.0, 8.0, 2.0])
    assert paired_ratio(a, b).value == 4.0 / 2.0


def test_a_ratio_over_another_ratio_knows_the_doubt_of_both() -> None:
    rng = np.random.default_rng(0)
    ids = [f"r{i}" for i in range(20)]
    a, b, steady = (pd.Series(rng.lognormal(0, 0.02, 20), ids) for _ in range(3))
    noisy = pd.Series(rng.lognormal(0, 0.3, 20), ids)
    plain, scaled = paired_ratio(a, b), ratio_of_medians([a, noisy], [b, steady])
    assert scaled.value == pytest.approx(plain.value * noisy.median() / steady.median())
    assert scaled.high - scaled.low > 3 * (plain.high - plain.low)
    alone = ratio_of_medians([a, noisy], [a, noisy])
    assert (alone.value, alone.low, alone.high) == (1.0, 1.0, 1.0)


def test_what_is_not_known_is_no_number() -> None:
    assert Interval(0.5, 0.25, 0.75, 4).text(".2f") == "0.50 [0.25, 0.75]"
    assert mean_interval([0.5]).text("+.1f") == "+0.5"
    assert mean_interval([]).text(".1f") == "–"


def test_pair_without_common_requests_or_with_a_request_twice() -> None:
    assert paired_ratio(pd.Series({"x": 1.0}), pd.Series({"y": 1.0})).n == 0
    with pytest.raises(ValueError, match="twice"):
        paired_ratio(pd.Series([1.0, 2.0], index=["x", "x"]), pd.Series({"x": 1.0}))
