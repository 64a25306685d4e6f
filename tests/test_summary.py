"""The summary and the aggregate, on rows small enough to work out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from bench.metrics import METRICS
from bench.results.aggregate import aggregate
from bench.results.all_metrics import all_metrics, write_metrics_csv
from bench.results.points import alarms, answers_lost, with_variants
from bench.results.summary import summarise, write_summary_csv
from tests._rows import frame_of, grid, make_row, point


def line(summary: pd.DataFrame, method: str, rho: float) -> pd.Series:
    found = summary[(summary["method"] == method) & (summary["rho"] == rho)]
    assert len(found) == 1
    return found.iloc[0]


def test_golden(tmp_path: Path) -> None:
    rows = point([1.0, 0.5, 0.0], [2.0, 4.0, 6.0], method="full_prefill", rho=1.0)
    rows += point(
        [0.5, 0.4, 0.0], [1.0, 2.0, 3.0], rho=0.3, rho_effective=0.31, bytes_total=100, evidence_recall=0.25
    )
    rows.append(make_row(request="r3", status="oom", score=None, ttft_s=None))
    rows.append(make_row(request="r4", status="skipped", score=None, ttft_s=None))
    fused = line(summarise(frame_of(rows, tmp_path)), "qcfuse", 0.3)
    assert (fused["n"], fused["n_failed"], fused["n_skipped"], fused["n_paired"]) == (3, 1, 1, 3)
    assert fused["score"] == pytest.approx(0.3)
    assert fused["ttft_s"] == 2.0
    # each TTFT is half of full prefill's: so is every resample's median
    assert (fused["speedup"], fused["speedup_low"], fused["speedup_high"]) == (2.0, 2.0, 2.0)
    assert (fused["rho_effective"], fused["bytes_total"]) == pytest.approx((0.31, 100))
    assert fused["evidence_recall"] == pytest.approx(0.25)
    assert math.isnan(fused["bytes_before_fusion"])
    assert (fused["select_s"], fused["recompute_s"]) == (0.1, 0.3)


def test_speedup_uses_only_the_requests_of_both(tmp_path: Path) -> None:
    rows = point([1.0, 1.0, 1.0], [2.0, 2.0, 90.0], method="full_prefill", rho=1.0)
    rows += point([1.0, 1.0], [1.0, 1.0], rho=0.3)
    fused = line(summarise(frame_of(rows, tmp_path)), "qcfuse", 0.3)
    assert (fused["speedup"], fused["n_paired"]) == (2.0, 2)


def test_point_that_only_failed_keeps_its_line(tmp_path: Path) -> None:
    rows = [make_row(status="failed", score=None, ttft_s=None, error="no")]
    failed = line(summarise(frame_of(rows, tmp_path)), "qcfuse", 0.3)
    assert (failed["n"], failed["n_failed"]) == (0, 1)
    assert math.isnan(failed["score"])


def test_a_request_measured_twice_counts_once(tmp_path: Path) -> None:
    rows = [make_row(score=0.0, ttft_s=1.0), make_row(score=1.0, ttft_s=3.0)]
    twice = line(summarise(frame_of(rows, tmp_path)), "qcfuse", 0.3)
    assert (twice["n"], twice["score"], twice["ttft_s"]) == (1, 0.5, 2.0)


def test_variants_name_only_what_tells_curves_apart(tmp_path: Path) -> None:
    rows = [
        make_row(params={"anchor_ratio": 0.1, "layers": [1, 2]}),
        make_row(params={"anchor_ratio": 0.2, "layers": [1, 2]}),
        make_row(model="model-b", params={"anchor_ratio": 0.1, "layers": [7]}),
        make_row(method="epic", params={"layers": [1]}),
        make_row(model="model-b", method="epic", params={"layers": [2]}),
    ]
    named = with_variants(frame_of(rows, tmp_path))["variant"].tolist()
    one, two = "qcfuse(anchor_ratio=0.1)", "qcfuse(anchor_ratio=0.2)"
    assert named == [one, two, one, "epic", "epic"]


def test_csv(tmp_path: Path) -> None:
    frame = frame_of(grid(n=4), tmp_path)
    path = write_summary_csv(frame, tmp_path / "new" / "summary.csv")
    read = pd.read_csv(path)
    assert len(read) == 3 * (2 + 6 * 3)
    assert read["score"].between(0, 1).all()


def test_aggregate_is_the_mean_of_normalised_panels(tmp_path: Path) -> None:
    rows = point([1.0, 1.0], [2.0, 2.0], method="full_prefill", rho=1.0)
    rows += point([0.5, 0.5], [1.0, 1.0], rho=0.3)
    slow = {"model": "model-b"}
    rows += point([0.4, 0.4], [10.0, 10.0], method="full_prefill", rho=1.0, **slow)
    rows += point([0.4, 0.4], [2.0, 2.0], rho=0.3, **slow)
    fused = line(aggregate(frame_of(rows, tmp_path)), "qcfuse", 0.3)
    assert fused["quality"] == pytest.approx((0.5 + 1.0) / 2)
    assert fused["ttft"] == pytest.approx((0.5 + 0.2) / 2)
    assert (fused["family"], fused["n_panels"], fused["n_panels_all"], fused["n"]) == ("F1", 2, 2, 4)
    assert (fused["ttft_low"], fused["ttft_high"]) == pytest.approx((0.35, 0.35))


def test_aggregate_of_full_prefill_is_one(tmp_path: Path) -> None:
    full = aggregate(frame_of(grid(n=5), tmp_path))
    full = full[full["method"] == "full_prefill"]
    columns = ["quality", "quality_low", "quality_high", "ttft", "ttft_low", "ttft_high"]
    assert full["family"].tolist() == ["F1", "SM"]
    assert full[columns].to_numpy() == pytest.approx(1.0)


def test_panel_where_full_prefill_scores_zero_does_not_enter(tmp_path: Path) -> None:
    rows = point([0.0], [1.0], method="full_prefill", rho=1.0) + point([0.5], [1.0])
    other = {"dataset": "other"}
    rows += point([1.0], [1.0], method="full_prefill", rho=1.0, **other) + point([0.5], [1.0], **other)
    frame = frame_of(rows, tmp_path)
    fused = line(aggregate(frame), "qcfuse", 0.3)
    assert (fused["quality"], fused["n_panels"], fused["n_panels_all"]) == (0.5, 1, 2)
    assert alarms(frame) == ["model-a, multihop: every score of full prefill is 0"]


def test_alarms(tmp_path: Path) -> None:
    full = {"method": "full_prefill", "rho": 1.0}
    rows = [make_row(dataset="zero", score=0.0), make_row(dataset="one", score=1.0)]
    rows += [make_row(dataset="none", status="failed", score=None), make_row(dataset="no full")]
    rows += [make_row(dataset="shapes", **full), make_row(dataset="shapes", chunks=8, **full)]
    found = {alarm.split(", ")[1].split(":")[0]: alarm for alarm in alarms(frame_of(rows, tmp_path))}
    assert "every score of every method is 0" in found["zero"]
    assert "every score of every method is 1" in found["one"]
    assert "no scored request" in found["none"]
    assert "no full prefill" in found["no full"]
    assert "several context shapes" in found["shapes"]
    assert alarms(frame_of([], tmp_path)) == ["the run has no rows"]


def test_every_metric_is_scored_anew(tmp_path: Path) -> None:
    rows = [
        make_row(request="a", prediction="The Mill.", references=["mill"], score=1.0),
        make_row(request="b", prediction="a barn", references=["mill"], score=0.0),
        make_row(request="c", status="failed", score=None),
        make_row(request="d", prediction="?", references=[]),
    ]
    frame = frame_of(rows, tmp_path)
    (line,) = all_metrics(frame).to_dict("records")
    assert (line["n"], line["f1"], line["exact_match"], line["exact_match_normalised"]) == (2, 0.5, 0.0, 0.5)
    written = pd.read_csv(write_metrics_csv(frame, tmp_path / "out" / "metrics.csv"))
    assert set(METRICS) <= set(written.columns)
    assert all_metrics(frame[frame["status"] == "failed"]).empty


def test_the_share_of_answers_lost_to_truncation() -> None:
    sources = {"a": {"source": {"share_answer_lost": 0.25}}, "b": {"source": {"share_answer_lost": 0.0}}}
    assert answers_lost({"datasets": sources | {"c": {"note": "x"}, "d": {"source": "file"}}}) == {"a": 0.25}
    assert answers_lost({}) == {}
