"""Whole runs on a slow, vanishing or failing store: throttled cells, timelines, faults in reading threads."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from bench.results.timeline import Record
from bench.runners.unit import Bench
from bench.store.disk import DiskStore
from tests.test_run import command, essence, rows_of

SLOW = {"methods": "full_prefill,prophetkv,qcfuse", "datasets": "multihop", "store": "disk"}


def fig13(model: Path, out: Path, **options: object) -> list[str]:
    chosen = {**SLOW, "requests": 2, "rho": "0.5", "bandwidth": "0.5x,4x,none", **options}
    return ["run", "fig13", *command(model, out, **chosen)[2:]]


@pytest.fixture(scope="module")
def slow(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over three bandwidths."""
    out = tmp_path_factory.mktemp("slow") / "run"
    assert main(fig13(tiny("qwen3"), out)) == 0
    return out


def test_a_throttled_cell_waits_for_what_it_reads(slow: Path) -> None:
    rows = rows_of(slow)
    assert {r["status"] for r in rows} == {"ok"}
    assert len(rows) == 2 * (1 + 2 * 3)
    for row in rows:
        rate = row["bandwidth_bytes_per_s"]
        assert (rate is None) == (row["bandwidth"] == "none")
        if rate is None:
            continue
        assert rate == float(row["bandwidth"].removesuffix("x")) * row["bandwidth_unit"]
        assert row["ttft_s"] >= 0.97 * row["bytes_total"] / rate - 0.01
        assert 0 <= row["select_wait_s"] <= row["select_s"]
        if row["method"] == "prophetkv":  # all of it before fusion
            assert row["bytes_before_fusion"] == row["bytes_total"]
            assert row["select_s"] >= 0.97 * row["bytes_total"] / rate - 0.01
    described = json.loads((slow / "run.json").read_text())
    assert list(described["bandwidth_units"]) == ["qwen30, multihop"]
    assert described["memory"]["peak_rss_bytes"] > 1e8


def test_bandwidth_changes_times_and_nothing_else(slow: Path) -> None:
    by_method: dict[tuple[str, str], set[Any]] = {}
    for row in rows_of(slow):
        by_method.setdefault((row["method"], row["request"]), set()).add(
            (row["prediction"], row["selection_sha256"], row["bytes_total"])
        )
    assert all(len(same) == 1 for same in by_method.values())


def test_timelines_hold_every_cell_and_agree_with_the_rows(slow: Path) -> None:
    lines = (slow / "timelines.jsonl").read_text().splitlines()
    records = {(r.cell, r.request): r for r in map(Record.model_validate_json, lines)}
    rows = rows_of(slow)
    assert set(records) == {(r["cell"], r["request"]) for r in rows}
    for row in rows:
        timeline = records[row["cell"], row["request"]].timeline
        assert timeline.ended == pytest.approx(row["ttft_s"], rel=0.02, abs=1e-5)
        waited = sum(layer.wait_ended - layer.wait_began for layer in timeline.layers)
        assert waited == pytest.approx(row["load_s"], abs=1e-4)
        assert sum(load.bytes for load in timeline.loads) == row["bytes_total"]
        for before, after in zip(timeline.layers, timeline.layers[1:], strict=False):
            assert before.began <= before.wait_began <= before.wait_ended <= before.ended <= after.began
        if row["method"] == "qcfuse":  # while a layer is computed, later ones are loaded
            ahead = [load for load in timeline.loads if load.stage == "fuse" and load.first > 0]
            assert any(load.began < timeline.layers[load.first - 1].ended for load in ahead)


def test_without_overlap_the_answers_are_the_same(
    slow: Path, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert main([*fig13(tiny("qwen3"), out, requests=1), "--no-overlap"]) == 0
    ahead = {(r["method"], r["bandwidth"], r["request"]): r for r in rows_of(slow)}
    for row in rows_of(out):
        same = ahead[row["method"], row["bandwidth"], row["request"]]
        assert row["prediction"] == same["prediction"]
        assert row["bytes_total"] == same["bytes_total"]


def test_an_error_in_a_reading_thread_fails_its_cell_and_the_run_goes_on(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, out = DiskStore.read, tmp_path / "run"

    def read(self: DiskStore, *args: Any) -> Any:
        if self.throttle is not None and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the reading thread died")
        return real(self, *args)

    monkeypatch.setattr(DiskStore, "read", read)
    assert main(fig13(tiny("qwen3"), out)) == 1
    rows = rows_of(out)
    assert len(rows) == 2 * (1 + 2 * 3)
    for row in rows:
        failed = row["bandwidth"] != "none"
        assert row["status"] == ("failed" if failed else "ok")
        assert not failed or "the reading thread died" in row["error"]
    assert "the reading thread died" in (out / "errors.log").read_text()


def test_a_store_deleted_mid_run_is_made_again(
    slow: Path, tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = tmp_path / "run", Bench.run

    def run(self: Bench, *args: Any) -> Any:
        shutil.rmtree(out / "store", ignore_errors=True)
        return real(self, *args)

    monkeypatch.setattr(Bench, "run", run)
    assert main(fig13(tiny("qwen3"), out)) == 0
    expected = essence(rows_of(slow))
    assert essence(rows_of(out)) == expected
    assert list((out / "store").glob("*.kv"))


def test_a_relative_bandwidth_is_measured_once_and_kept(
    slow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = json.loads((slow / "run.json").read_text())["bandwidth_units"]["qwen30, multihop"]
    assert {r["bandwidth_unit"] for r in rows_of(slow)} == {unit}
