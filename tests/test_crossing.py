"""Crossings with full prefill at a known bandwidth, and the paper's claim judged all three ways."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.results import paper_setup
from bench.results.bandwidth_claim import judge
from bench.results.crossing import ABOVE, BELOW, Crossing, crossing_table, crossings, positions, rate
from bench.results.schema import Row
from tests._bandwidth import UNIT, curve, full
from tests._rows import frame_of


def of(rows: list[Row], folder: Path) -> dict[str, Crossing]:
    return {one.variant: one for one in crossings(frame_of(rows, folder), count=500)}


def test_a_crossing_between_two_bandwidths_is_linear_in_log_bandwidth(tmp_path: Path) -> None:
    # 2 s at 1x and 0.5 s at 8x meet 1 s after two thirds of the way: 8^(2/3) = 4
    rows = full([1.0] * 4) + curve("qcfuse", {1: [2.0] * 4, 8: [0.5] * 4, None: [0.4] * 4})
    one = of(rows, tmp_path)["qcfuse"]
    assert one.where == "inside"
    assert one.position == pytest.approx(4 * UNIT)
    assert one.interval == pytest.approx((4 * UNIT, 4 * UNIT))  # all requests are alike
    assert one.words == "crosses at 4x (80 MB/s)"
    line = crossing_table([one]).iloc[0]
    assert line["crossing_x"] == pytest.approx(4)
    assert (line["share_below"], line["share_inside"], line["share_above"]) == (0, 1, 0)
    assert (line["n"], line["passages"], line["faster_unthrottled"]) == (4, 1, True)


def test_the_crossing_is_where_the_curve_goes_through_a_measured_point(tmp_path: Path) -> None:
    rows = full([1.0, 1.0]) + curve("qcfuse", {1: [2.0] * 2, 2: [1.0] * 2, 4: [0.5] * 2})
    assert of(rows, tmp_path)["qcfuse"].position == pytest.approx(2 * UNIT)


@pytest.mark.parametrize(
    ("ttfts", "where", "words"),
    [
        ({1: [0.9], 3: [0.5]}, "below", "faster than full prefill at every bandwidth measured (1x to 3x)"),
        ({1: [3.0], 3: [2.0]}, "above", "slower than full prefill at every bandwidth measured (1x to 3x)"),
        ({1: [3.0], 3: [2.0], None: [0.5]}, "above", "(1x to 3x), faster without a throttle"),
        ({1: [3.0], 3: [2.0], None: [1.5]}, "above", "(1x to 3x), and without a throttle"),
        ({1: [0.5], 3: [2.0]}, "above", "unclear: faster at some bandwidth, slower again at the highest"),
    ],
)
def test_none_inside_the_range_has_its_direction(
    tmp_path: Path, ttfts: dict[float | None, list[float]], where: str, words: str
) -> None:
    rows = full([1.0] * 3) + curve("qcfuse", {x: values * 3 for x, values in ttfts.items()})
    one = of(rows, tmp_path)["qcfuse"]
    assert one.where == where
    assert words in one.words
    line = crossing_table([one]).iloc[0]
    assert math.isnan(line["crossing_x"])
    assert math.isnan(line["crossing_low_x"])
    assert line[f"share_{where}"] == 1


def test_of_several_passages_the_last_one_counts(tmp_path: Path) -> None:
    ttfts: dict[float | None, list[float]] = {1: [2.0], 2: [0.5], 4: [1.5], 8: [0.5]}
    one = of(full([1.0]) + curve("qcfuse", ttfts), tmp_path)["qcfuse"]
    assert one.position / UNIT == pytest.approx(4 * math.sqrt(2))
    assert "the last of 2 passages" in one.words
    assert all(math.isnan(bound) for bound in one.interval)  # n = 1


def test_positions_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(3)
    rates = np.array([1.0, 2.0, 5.0, 9.0])
    times, reference = rng.uniform(0.5, 1.5, (300, 4)), rng.uniform(0.6, 1.4, 300)
    found = positions(rates, times, reference)
    for line, at, full_s in zip(times, found, reference, strict=True):
        slower = [i for i in range(4) if line[i] > full_s]
        if not slower:
            assert at == BELOW
        elif slower[-1] == 3:
            assert at == ABOVE
        else:
            i = slower[-1]
            # on the line between its neighbours the time at the crossing is full prefill's
            there = np.interp(np.log(at), np.log(rates[i : i + 2]), line[i : i + 2])
            assert there == pytest.approx(full_s)
    assert {BELOW, ABOVE} < set(found)


def test_draws_take_the_same_requests_for_both(tmp_path: Path) -> None:
    """A hard request is slow under full prefill and under the method: paired, the crossing does not move."""
    ease = np.array([0.2, 0.6, 1.0, 1.7, 3.0])
    rows = full(list(ease)) + curve("qcfuse", {1: list(2 * ease), 8: list(0.5 * ease)})
    one = of(rows, tmp_path)["qcfuse"]
    assert one.interval == pytest.approx((4 * UNIT, 4 * UNIT))
    assert one.slower.tolist() == [True, False]


def test_only_requests_of_all_methods_enter(tmp_path: Path) -> None:
    rows = full([1.0] * 4) + curve("qcfuse", {1: [2.0] * 4, 8: [0.5] * 4})
    rows += curve("prophetkv", {1: [2.0] * 3, 8: [0.5] * 3})
    assert {one.n for one in of(rows, tmp_path).values()} == {3}


def test_what_cannot_cross_has_no_line(tmp_path: Path) -> None:
    throttled = curve("qcfuse", {1: [2.0], 8: [0.5]})
    assert not of(throttled, tmp_path / "no full prefill")
    assert not of(full([1.0]) + curve("qcfuse", {None: [0.5]}), tmp_path / "no throttle")
    assert crossing_table([]).empty


def claim(prophet: dict[float | None, list[float]], qc: dict[float | None, list[float]], folder: Path) -> str:
    n = len(next(iter(prophet.values())))
    rows = full([1.0] * n) + curve("prophetkv", prophet) + curve("qcfuse", qc)
    (one,) = judge(crossings(frame_of(rows, folder), count=500))
    assert one.verdict.upper() in one.sentence
    return one.verdict


def same(value: float, n: int = 6) -> list[float]:
    return [value] * n


CROSSES_AT_4: dict[float | None, list[float]] = {1: same(2.0), 8: same(0.5)}


@pytest.mark.parametrize(
    ("prophet", "qc", "verdict"),
    [
        (CROSSES_AT_4, {1: same(1.1), 8: same(0.3)}, "holds"),
        (CROSSES_AT_4, {1: same(0.9), 8: same(0.3)}, "holds"),  # QCFuse at none
        ({1: same(3.0), 8: same(1.5), None: same(0.9)}, {1: same(2.0), 8: same(0.3)}, "holds"),
        ({1: same(1.1), 8: same(0.3)}, CROSSES_AT_4, "does not hold"),
        (CROSSES_AT_4, CROSSES_AT_4, "does not hold"),  # at the same bandwidth is not lower
        ({1: same(0.9), 8: same(0.5)}, {1: same(0.8), 8: same(0.3)}, "does not hold"),
        ({1: same(3.0), 8: same(1.5), None: same(1.2)}, {1: same(0.8), 8: same(0.3)}, "does not hold"),
        # half of the requests say one thing, half the other
        ({1: same(2.0), 8: [0.3] * 3 + [0.9] * 3}, {1: same(2.0), 8: [0.9] * 3 + [0.3] * 3}, "undecided"),
        ({1: [2.0], 8: [0.5]}, {1: [0.9], 8: [0.3]}, "undecided"),  # one request
    ],
)
def test_verdicts(
    tmp_path: Path,
    prophet: dict[float | None, list[float]],
    qc: dict[float | None, list[float]],
    verdict: str,
) -> None:
    assert claim(prophet, qc, tmp_path) == verdict


def test_no_verdict_without_both_methods(tmp_path: Path) -> None:
    assert judge(crossings(frame_of(full([1.0]) + curve("qcfuse", CROSSES_AT_4), tmp_path), 10)) == []


def test_the_papers_bandwidths_on_the_relative_axis() -> None:
    assert paper_setup.cache_bytes() == 1_509_949_440
    assert paper_setup.prefill_operations() == pytest.approx(1.7317e14, rel=1e-4)
    assert paper_setup.prefill_seconds() == pytest.approx(1.6716, rel=1e-4)
    assert [round(paper_setup.relative(at), 1) for at in paper_setup.MARKED] == [3.3, 11.1]
    assert paper_setup.relative(3e9, 0.5) == pytest.approx(4.65, abs=0.01)
    assert paper_setup.relative(3e9, 0.9) == pytest.approx(2.58, abs=0.01)


def test_rates_in_words() -> None:
    assert [rate(at) for at in (5, 2e3, 14.72e6, 1.51e9)] == ["5 B/s", "2 kB/s", "14.7 MB/s", "1.51 GB/s"]


def test_csv_columns_read_back(tmp_path: Path) -> None:
    found = of(full(same(1.0)) + curve("qcfuse", CROSSES_AT_4), tmp_path)
    path = tmp_path / "crossings.csv"
    crossing_table(list(found.values())).to_csv(path, index=False)
    assert pd.read_csv(path)["crossing_bytes_per_s"].tolist() == [pytest.approx(4 * UNIT)]
