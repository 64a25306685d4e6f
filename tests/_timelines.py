"""Synthetic timelines: layers of 10 ms, reads beside them. Invented numbers, for tests only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.results.timeline import LayerSpan, LoadSpan, Record, Timeline


def full_prefill() -> Timeline:
    """0.5 s of prefill and 10 ms of head."""
    return Timeline(selected=0.0, head_began=0.5, ended=0.51, layers=[], loads=[])


def fused(layers: int = 4) -> Timeline:
    """Selection for 0.1 s with one read, then layers of 10 ms, of it 4 ms waiting; two threads read."""
    spans = [
        LayerSpan(began=at, wait_began=at + 0.002, wait_ended=at + 0.006, ended=at + 0.01)
        for at in (0.1 + 0.01 * number for number in range(layers))
    ]
    first = LoadSpan(
        stage="select", first=0, last=1, parts=("keys",), bytes=100, thread="read_1", began=0.001, ended=0.05
    )
    loads = [
        LoadSpan(
            stage="fuse", first=number, last=number, parts=("keys", "values"), bytes=200,
            thread=f"read_{number % 2}", began=0.09 + 0.01 * number, ended=0.095 + 0.01 * number,
        )
        for number in range(layers)
    ]  # fmt: skip
    end = 0.1 + 0.01 * layers
    return Timeline(selected=0.1, head_began=end, ended=end + 0.01, layers=spans, loads=[first, *loads])


def record(method: str = "qcfuse", timeline: Timeline | None = None, **fields: Any) -> Record:
    """A record with everything that a test does not care about filled in."""
    base: dict[str, Any] = {
        "cell": f"{method}{fields.get('bandwidth')}{fields.get('rho')}", "model": "model-a",
        "dataset": "multihop", "method": method, "rho": 1.0 if method == "full_prefill" else 0.3,
        "bandwidth": "none" if method == "full_prefill" else "1.5x", "request": "multihop-0-0",
        "timeline": timeline or (full_prefill() if method == "full_prefill" else fused()),
    }  # fmt: skip
    return Record(**(base | fields))


def write_timelines(records: Sequence[Record], run: Path, tail: str = "") -> Path:
    """`timelines.jsonl` in a run's folder, with `tail` after its lines; returns the folder."""
    run.mkdir(parents=True, exist_ok=True)
    lines = "".join(one.model_dump_json() + "\n" for one in records)
    (run / "timelines.jsonl").write_text(lines + tail, "utf-8")
    return run
