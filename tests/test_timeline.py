"""Timelines: which are shown, the picture, the trace."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from rich.console import Console

from bench.cli import main
from bench.figures import timeline as picture
from bench.figures.style import STAGES
from bench.results.recorded import Wanted, choose, labels, read_timelines, title
from bench.results.report import write_reports
from bench.results.trace import trace
from tests._bandwidth import sweep
from tests._rows import write_run
from tests._timelines import fused, record, write_timelines
from tests.test_figures import words

METHODS = ["qcfuse", "full_prefill", "epic", "prophetkv"]


def names(records: list[Any]) -> list[str]:
    return [one.method for one in records]


def test_by_default_all_methods_of_the_first_request_in_legend_order() -> None:
    records = [record(method, request=request) for request in ("b", "a") for method in METHODS]
    chosen = choose(records, Wanted())
    assert names(chosen) == ["full_prefill", "epic", "prophetkv", "qcfuse"]
    assert {one.request for one in chosen} == {"b"}
    assert names(choose(records, Wanted(request="a", methods=["qcfuse"]))) == ["qcfuse"]
    assert title(chosen) == "model-a, multihop, request b, ρ = 0.3, store at 1.5x"


def test_one_bandwidth_and_one_rho() -> None:
    records = [
        record(method, bandwidth=bandwidth, rho=rho)
        for method in ("qcfuse", "epic")
        for bandwidth in ("none", "11x", "1.5x", "3x")
        for rho in (0.5, 0.3)
    ]
    records += [record("full_prefill"), record("direct_reuse", rho=0.0, bandwidth="11x")]
    records += [record("direct_reuse", rho=0.0, bandwidth="1.5x")]
    shown = choose(records, Wanted())
    assert names(shown) == ["full_prefill", "direct_reuse", "epic", "qcfuse"]
    assert {(one.bandwidth, one.rho) for one in shown[2:]} == {("1.5x", 0.3)}
    other = choose(records, Wanted(bandwidth="11x", rho=0.5))
    assert {(one.bandwidth, one.rho) for one in other[2:]} == {("11x", 0.5)}
    assert names(choose(records, Wanted(bandwidth="none"))) == ["full_prefill", "epic", "qcfuse"]


def test_a_method_with_several_parameters_is_told_apart() -> None:
    records = [record("qcfuse", params={"anchor_ratio": ratio}) for ratio in (0.1, 0.2)]
    assert labels([record("epic", params={"a": 1}), *records]) == [
        "EPIC", "QCFuse (anchor_ratio=0.1)", "QCFuse (anchor_ratio=0.2)",
    ]  # fmt: skip


def test_the_same_id_on_two_datasets_is_two_requests() -> None:
    records = [record("qcfuse"), record("qcfuse", dataset="other"), record("epic", dataset="other")]
    assert names(choose(records, Wanted())) == ["qcfuse"]
    assert names(choose(records, Wanted(dataset="other"))) == ["epic", "qcfuse"]


def test_a_request_measured_again_counts_once_and_a_torn_line_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    again = record("qcfuse", fused(layers=7))
    run = write_timelines([record("qcfuse"), again], tmp_path, tail='{"cell":"')
    with caplog.at_level(logging.WARNING):
        (kept,) = read_timelines(run)
    assert len(kept.timeline.layers) == 7
    assert "timelines.jsonl:3" in caplog.text


def test_packed_timelines_read_the_same(tmp_path: Path) -> None:
    path = write_timelines([record("qcfuse"), record("epic")], tmp_path) / "timelines.jsonl"
    plain = read_timelines(tmp_path)
    path.with_name("timelines.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert read_timelines(tmp_path) == plain


def test_the_trace_is_one_that_perfetto_reads() -> None:
    content = json.loads(json.dumps(trace([record("full_prefill"), record("qcfuse")])))
    events = content["traceEvents"]
    assert content["displayTimeUnit"] == "ms"
    assert content["otherData"]["request"] == "multihop-0-0"
    assert {event["ph"] for event in events} == {"M", "X"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(processes) == [1, 2]
    assert processes[2].startswith("QCFuse")
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [name for (pid, _), name in sorted(threads.items()) if pid == 2] == [
        "select", "load read_0", "load read_1", "compute", "first token",
    ]  # fmt: skip
    spans = [e for e in events if e["ph"] == "X"]
    assert all((e["pid"], e["tid"]) in threads and e["ts"] >= 0 and e["dur"] >= 0 for e in spans)
    # what lies in one thread is nested or apart, as the format asks for
    for track in threads:
        own = sorted((e["ts"], -e["dur"]) for e in spans if (e["pid"], e["tid"]) == track)
        open_until: list[float] = []
        for began, minus in own:
            while open_until and open_until[-1] <= began + 1e-6:
                open_until.pop()
            assert not open_until or began - minus <= open_until[-1] + 1e-6
            open_until.append(began - minus)


def test_a_trace_holds_what_was_measured() -> None:
    spans = [e for e in trace([record("qcfuse")])["traceEvents"] if e["ph"] == "X"]
    by_name = {e["name"]: e for e in spans if not e["cat"].startswith("load")}
    assert (by_name["select"]["ts"], by_name["select"]["dur"]) == (0, 100_000)
    layer, wait = by_name["layer 2"], by_name["wait for layer 2"]
    assert (layer["ts"], layer["dur"]) == pytest.approx((120_000, 10_000))
    assert (wait["ts"], wait["dur"]) == pytest.approx((122_000, 4_000))
    assert (by_name["first token"]["ts"], by_name["first token"]["dur"]) == pytest.approx((140_000, 10_000))
    loads = [e for e in spans if e["cat"].startswith("load")]
    assert sum(e["args"]["bytes"] for e in loads) == 100 + 4 * 200
    first = next(e for e in loads if e["cat"] == "load for select")
    assert first["args"] == {"layers": [0, 1], "bytes": 100, "parts": ["keys"], "stage": "select"}
    prefill = [e for e in trace([record("full_prefill")])["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in prefill] == ["prefill", "first token"]


def widths(figure: Any, colour: str) -> float:
    """Milliseconds drawn in a colour."""
    total = 0.0
    for bars in figure.axes[0].collections:
        assert isinstance(bars, PolyCollection)
        faces = [to_hex(face) for face in bars.get_facecolor()]
        if faces and faces[0] == colour.lower():
            for path in bars.get_paths():
                box = path.get_extents()
                total += box.x1 - box.x0
    return total


def test_the_picture_is_to_scale_and_labelled() -> None:
    figure = picture.draw([record("full_prefill"), record("qcfuse")])
    text = words(figure)
    for part in (
        "Full prefill", "QCFuse", "select", "load, 2 threads", "compute", "first token", "510 ms", "150 ms",
        "layer waits for its cache", "full prefill's end", "Time since the request's arrival (ms)",
    ):  # fmt: skip
        assert part in text
    assert widths(figure, STAGES["select"]) == pytest.approx(100)
    assert widths(figure, STAGES["load"]) == pytest.approx(4 * 5)
    assert widths(figure, STAGES["recompute"]) == pytest.approx(500 + 2 * 10)  # every other layer
    assert widths(figure, "#ffffff") == pytest.approx(4 * 4)
    assert widths(figure, STAGES["first token"]) == pytest.approx(20)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_timelines([record(m, request="a/b-1") for m in METHODS], tmp_path / "run")
    assert main(["timeline", str(run), "--out", str(tmp_path / "out"), "--method", "qcfuse,epic"]) == 0
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["timeline-a-b-1.png", "timeline-a-b-1.svg", "timeline-a-b-1.trace.json"]
    content = json.loads((tmp_path / "out" / "timeline-a-b-1.trace.json").read_text())
    named = [e["args"]["name"] for e in content["traceEvents"] if e["name"] == "process_name"]
    assert [name.split(",")[0] for name in named] == ["EPIC", "QCFuse"]
    assert "request a/b-1" in capsys.readouterr().out


def test_a_run_and_its_timeline(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    argv = ["run", "fig09", "--profile", "tiny", "--models", str(tiny("llama")), "--requests", "2"]
    argv += ["--chunk-tokens", "90", "--dtype", "float32", "--out", str(run), "--report", str(out)]
    assert main([*argv, "--methods", "full_prefill,prophetkv,qcfuse"]) == 0
    assert (out / "fig09.png").stat().st_size > 5000
    assert (out / "fig09.trace.json").stat().st_size > 1000
    records = read_timelines(run)
    ids = sorted({one.request for one in records})
    assert len(ids) == 2
    assert len(records) == 2 * 3
    assert main(["timeline", str(run), "--request", ids[1], "--bandwidth", "1.5x", "--out", str(out)]) == 0
    events = json.loads((out / f"timeline-{ids[1]}.trace.json").read_text())["traceEvents"]
    rows = {row["method"]: row for row in map(json.loads, (run / "rows.jsonl").read_text().splitlines())
            if row["request"] == ids[1]}  # fmt: skip
    for pid, method in enumerate(("full_prefill", "prophetkv", "qcfuse"), 1):
        own = [e for e in events if e["pid"] == pid and e["ph"] == "X"]
        # the trace ends with the first token, and read what the row says
        end = max(e["ts"] + e["dur"] for e in own)
        assert end == pytest.approx(rows[method]["ttft_s"] * 1e6, abs=5)
        assert sum(e["args"].get("bytes", 0) for e in own) == rows[method]["bytes_total"]


def test_the_report_of_fig09(tmp_path: Path) -> None:
    run = write_run(sweep([1.5], n=2), tmp_path / "run", {"experiment": "fig09"})
    write_timelines([record(method) for method in METHODS], run)
    out = StringIO()
    paths = write_reports(run, tmp_path / "out", Console(file=out, width=100))
    assert [path.name for path in paths] == [
        "fig09.png", "fig09.svg", "fig09.trace.json", "stages.csv", "summary.csv",
    ]  # fmt: skip
    assert all(path.stat().st_size > 0 for path in paths)
    assert "mean TTFT by stage" in out.getvalue()
