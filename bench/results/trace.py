"""A request's timelines as a Chrome trace, to be opened in Perfetto or chrome://tracing.

Format: "Trace Event Format" (Google), complete events ("ph": "X") with `ts` and `dur` in microseconds, and
metadata events ("ph": "M") for names. A process a method, its tracks as threads; all begin at 0, the
request's arrival, so that methods stand one under the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.assets.cache import write_atomically
from bench.results.recorded import labels
from bench.results.timeline import Record, Timeline


def trace(records: Sequence[Record]) -> dict[str, Any]:
    """The trace of some timelines, in their order."""
    events: list[dict[str, Any]] = []
    for pid, (record, label) in enumerate(zip(records, labels(records), strict=True), 1):
        events += _process(pid, record, label)
    first = records[0]
    about = {"model": first.model, "dataset": first.dataset, "request": first.request}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def write_trace(records: Sequence[Record], path: Path) -> Path:
    """Write the trace of some timelines as JSON; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(trace(records), indent=1))
    return path


def _process(pid: int, record: Record, label: str) -> list[dict[str, Any]]:
    timeline = record.timeline
    lanes = threads(timeline)
    tracks = ["select", *(f"load {thread}" for thread in lanes), "compute", "first token"]
    name = f"{label}, rho {record.rho:g}, bandwidth {record.bandwidth}"
    events = [
        _meta(pid, 0, "process_name", {"name": name}),
        _meta(pid, 0, "process_sort_index", {"sort_index": pid}),
    ]
    for tid, track in enumerate(tracks, 1):
        events.append(_meta(pid, tid, "thread_name", {"name": track}))
        events.append(_meta(pid, tid, "thread_sort_index", {"sort_index": tid}))
    compute, head = len(tracks) - 1, len(tracks)
    if timeline.selected > 0:
        events.append(_span(pid, 1, "select", "select", 0.0, timeline.selected))
    for load in timeline.loads:
        layers = f"layer {load.first}" if load.first == load.last else f"layers {load.first} to {load.last}"
        events.append(_span(
            pid, 2 + lanes.index(load.thread), layers, f"load for {load.stage}", load.began, load.ended,
            layers=[load.first, load.last], bytes=load.bytes, parts=list(load.parts), stage=load.stage,
        ))  # fmt: skip
    for number, layer in enumerate(timeline.layers):
        span, wait = (layer.began, layer.ended), (layer.wait_began, layer.wait_ended)
        events.append(_span(pid, compute, f"layer {number}", "recompute", *span, layer=number))
        if wait[1] > wait[0]:
            events.append(_span(pid, compute, f"wait for layer {number}", "wait", *wait, layer=number))
    if not timeline.layers:
        events.append(_span(pid, compute, "prefill", "recompute", timeline.selected, timeline.head_began))
    events.append(_span(pid, head, "first token", "first token", timeline.head_began, timeline.ended))
    return events


def threads(timeline: Timeline) -> list[str]:
    """The reading threads, in the order of their names."""
    return sorted({load.thread for load in timeline.loads})


def _span(
    pid: int, tid: int, name: str, category: str, began: float, ended: float, **args: Any
) -> dict[str, Any]:
    ts = round(began * 1e6, 3)
    return {
        "name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid, "ts": ts,
        "dur": round(max(ended * 1e6 - ts, 0.0), 3), "args": args,
    }  # fmt: skip


def _meta(pid: int, tid: int, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}
