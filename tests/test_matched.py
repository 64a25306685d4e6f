"""Matched quality: the front, the interpolation and the speed-up, by hand and by invariants."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.results.matched import matched_over, matched_quality, pareto_front, ttft_at
from bench.results.schema import Row
from tests._rows import frame_of, grid, point

points = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 1)), min_size=1, max_size=8)


def full(score: float = 0.8, ttft: float = 6.0, n: int = 4, **fields: str) -> list[Row]:
    return point([score] * n, [ttft] * n, method="full_prefill", rho=1.0, **fields)


def fused(curve: dict[float, tuple[float, float]], n: int = 4, method: str = "qcfuse", **f: str) -> list[Row]:
    rows = []
    for rho, (ttft, score) in curve.items():
        rows += point([score] * n, [ttft] * n, method=method, rho=rho, **f)
    return rows


def line(matched: pd.DataFrame, scope: str = "dataset", method: str = "qcfuse") -> pd.Series:
    return matched[(matched["scope"] == scope) & (matched["method"] == method)].iloc[0]


def test_front_by_hand() -> None:
    assert pareto_front([(3, 0.7), (1, 0.2), (2, 0.6), (2, 0.5), (4, 0.6)]) == [(1, 0.2), (2, 0.6), (3, 0.7)]


def test_ttft_by_hand() -> None:
    curve = [(1.0, 0.2), (2.0, 0.6), (4.0, 0.8)]
    assert ttft_at(curve, 0.7) == pytest.approx(3.0)
    assert ttft_at(curve, 0.8) == 4.0
    assert ttft_at(curve, 0.1) == 1.0
    assert ttft_at(curve, 0.81) is None
    assert ttft_at([], 0.0) is None


@given(points)
def test_front_is_the_unbeaten_points(some: list[tuple[float, float]]) -> None:
    front = pareto_front(some)
    assert front == sorted(front)
    for ttft, quality in some:
        assert any(t <= ttft and q >= quality for t, q in front)
    for one in front:
        assert not any(t <= one[0] and q >= one[1] and (t, q) != one for t, q in some)


@given(points, st.floats(0, 1), st.floats(0, 1))
def test_more_quality_never_costs_less(some: list[tuple[float, float]], a: float, b: float) -> None:
    low, high = ttft_at(some, min(a, b)), ttft_at(some, max(a, b))
    if high is not None:
        assert low is not None
        assert low <= high + 1e-9


def test_interpolated_speedup(tmp_path: Path) -> None:
    # full prefill 0.80 in 6 s; target 0.79, between 0.60 (2 s) and 0.80 (4 s): 3.9 s
    rows = full() + fused({0.1: (1.0, 0.2), 0.3: (2.0, 0.6), 0.5: (4.0, 0.8)})
    found = line(matched_quality(frame_of(rows, tmp_path)))
    assert found["speedup"] == pytest.approx(6 / 3.9)
    # every request is alike, so every draw is
    assert (found["speedup_low"], found["speedup_high"]) == pytest.approx((6 / 3.9, 6 / 3.9))
    assert (found["reached"], found["reached_share"], found["n"]) == (True, 1.0, 4)


def test_exactly_one_point_below_is_matched(tmp_path: Path) -> None:
    found = line(matched_quality(frame_of(full() + fused({0.3: (2.0, 0.79)}), tmp_path)))
    assert found["speedup"] == pytest.approx(3.0)


def test_not_reached(tmp_path: Path) -> None:
    found = line(matched_quality(frame_of(full() + fused({0.3: (2.0, 0.78)}), tmp_path)))
    assert (found["reached"], found["reached_share"]) == (False, 0.0)
    assert math.isnan(found["speedup"])
    assert math.isnan(found["speedup_high"])


def test_direct_reuse_lends_its_point_to_no_other_method(tmp_path: Path) -> None:
    rows = full() + fused({0.3: (2.0, 0.5)}) + fused({0.0: (1.0, 0.9)}, method="direct_reuse")
    matched = matched_quality(frame_of(rows, tmp_path))
    assert not line(matched)["reached"]
    assert line(matched, method="direct_reuse")["speedup"] == pytest.approx(6.0)


def test_share_and_open_lower_bound(tmp_path: Path) -> None:
    # request r0 decides: a draw of two reaches 0.5 - 0.01 unless it holds r0 more often than r1
    rows = point([0.5, 0.5], [2.0, 2.0], method="full_prefill", rho=1.0)
    rows += point([0.0, 1.0], [1.0, 1.0], rho=0.3)
    found = line(matched_quality(frame_of(rows, tmp_path)))
    assert found["speedup"] == pytest.approx(2.0)
    assert found["reached_share"] == pytest.approx(0.75, abs=0.05)
    assert math.isnan(found["speedup_low"])
    assert found["speedup_high"] == pytest.approx(2.0)


def test_pooled_over_panels(tmp_path: Path) -> None:
    # quality means 0.7 and 0.7; normalised TTFT 1/2 and 1/4, mean 3/8
    rows = full(0.8, 4.0) + fused({0.3: (2.0, 0.7)})
    rows += full(0.6, 8.0, dataset="other") + fused({0.3: (2.0, 0.7)}, dataset="other")
    matched = matched_quality(frame_of(rows, tmp_path))
    for scope in ("model", "run"):
        found = line(matched, scope)
        assert found["speedup"] == pytest.approx(8 / 3)
        assert (found["n_panels"], found["n"]) == (2, 8)
    assert not line(matched)["reached"]


def test_rho_measured_on_few_requests_does_not_enter(tmp_path: Path) -> None:
    rows = full(n=4) + fused({0.3: (2.0, 0.8)}) + fused({0.5: (0.1, 0.8)}, n=1)
    found = line(matched_quality(frame_of(rows, tmp_path)))
    assert (found["speedup"], found["n"]) == (pytest.approx(3.0), 4)


def test_over_another_method(tmp_path: Path) -> None:
    rows = full() + fused({0.3: (2.0, 0.8)}) + fused({0.3: (3.0, 0.8)}, method="prophetkv")
    frame = frame_of(rows, tmp_path)
    assert matched_over(frame, "qcfuse", "prophetkv") == pytest.approx((1.5, 1.5, 1.5, 1.0))
    assert matched_over(frame, "qcfuse", "absent")[3] == 0.0


@given(seed=st.integers(0, 50))
@settings(max_examples=4, deadline=None)
def test_interval_holds_the_estimate_and_is_seeded(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frame = frame_of(grid(n=6, seed=seed), tmp_path_factory.mktemp("run"))
    matched = matched_quality(frame, count=100)
    pd.testing.assert_frame_equal(matched, matched_quality(frame, count=100))
    bounded = matched.dropna(subset=["speedup", "speedup_low"])
    assert (bounded["speedup_low"] <= bounded["speedup_high"]).all()
    assert matched["reached_share"].between(0, 1).all()


def test_no_full_prefill(tmp_path: Path) -> None:
    assert matched_quality(frame_of(fused({0.3: (1.0, 1.0)}), tmp_path)).empty
