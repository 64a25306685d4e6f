"""What a reader must know before believing a number: the page's warnings, one line each."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from bench.figures.style import label
from bench.reports.run_view import RunView
from bench.results.conditions import distrust
from bench.results.points import POINT, alarms, answers_lost, dataset_notes
from bench.results.shown import long_instructions

SPREAD = 0.25
"""A point is called unstable where its TTFTs' quartiles lie further apart than this share of the median,"""
OUTLIER = 2.0
"""or where one request takes more than this many medians."""
FEW = 30
"""Percentile intervals over fewer requests are too narrow (docs/metrics.md)."""
MOST = 8
"""Lines of one kind; the rest is counted."""

LEVELS = ("bad", "warn", "note")


class Remark(NamedTuple):
    """A warning: how bad (one of `LEVELS`) and its text."""

    level: str
    text: str


def remarks(run: RunView) -> list[Remark]:
    """Alarms, failures, unstable points, what the datasets lost or are not, what run.json warns of.

    `run.json` may hold "warnings", a list of lines a run wants read: a damaged cache that was rebuilt, say.
    """
    found = [Remark("bad", "Holds numbers predicted by a cost model, not measured.")] if run.predicted else []
    found += [Remark("bad", text) for text in distrust(run.info)]
    found += [Remark("bad", text) for text in alarms(run.frame)]
    found += [Remark("bad", text) for text in _failures(run.frame)]
    found += [Remark("warn", text) for text in _some(unstable(run.frame))]
    found += [Remark("warn", text) for text in lost(run.info) + _short(run.info)]
    found += [Remark("note", f"{name}: {note}") for name, note in dataset_notes(run.info).items()]
    long = long_instructions(run.folder.path)
    found += [Remark("warn", f"{name}: {note}.") for name, note in long.items()]
    found += [Remark("warn", text) for text in _origin(run)]
    counts = run.summary["n"]
    if 0 < counts.max() < FEW:
        text = (
            f"At most {counts.max()} requests a point: with fewer than {FEW}, 95 % intervals are too narrow"
        )
        found.append(Remark("note", f"{text}; read them as a lower bound on the doubt."))
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def unstable(frame: pd.DataFrame) -> list[str]:
    """Points of four requests or more whose TTFT spreads widely (`SPREAD`, `OUTLIER`), one line each."""
    found = []
    for key, rows in frame[frame["status"] == "ok"].groupby(POINT):
        times = rows["ttft_s"].dropna()
        middle = times.median()
        if len(times) < 4 or not middle > 0:
            continue
        spread = (times.quantile(0.75) - times.quantile(0.25)) / middle
        if spread > SPREAD or times.max() > OUTLIER * middle:
            found.append(
                f"Unstable TTFT: {_point(key)}: quartiles {spread:.0%} of the median apart, "
                f"slowest request {times.max() / middle:.1f} medians"
            )
    return found


def _point(key: Any) -> str:
    model, dataset, method, params, rho, bandwidth = map(str, key)
    text = f"{model}, {dataset}, {label(method)}"
    text += f" {params}" if params != "{}" else ""
    text += f", ρ = {float(rho):g}"
    return text if bandwidth == "none" else f"{text}, {bandwidth}"


def _failures(frame: pd.DataFrame) -> list[str]:
    found = []
    bad = frame[frame["status"].isin(["failed", "oom"])].fillna({"error": "no message"})
    for (method, error), rows in bad.groupby(["method", "error"]):
        found.append(f"{len(rows)} rows of {method} failed: {(str(error).splitlines() or [''])[0]}")
    for method, rows in frame[frame["status"] == "skipped"].groupby("method"):
        found.append(f"{len(rows)} rows of {method!s} were skipped")
    return found


def lost(info: dict[str, Any]) -> list[str]:
    """What truncation cost, a line for each dataset that lost answers by it."""
    return [
        f"{name}: truncation took the answer out of {share:.1%} of the samples"
        for name, share in answers_lost(info).items()
    ]


def _short(info: dict[str, Any]) -> list[str]:
    datasets = info.get("datasets")
    counts = {
        name: about.get("requests_short")
        for name, about in (datasets.items() if isinstance(datasets, dict) else ())
        if isinstance(about, dict)
    }
    return [f"{name}: {n} requests have fewer chunks than asked for" for name, n in counts.items() if n]


def _origin(run: RunView) -> list[str]:
    found = []
    torn = run.frame.attrs.get("torn_line")
    if torn is not None:
        found.append(f"The last line of the rows ({torn}) was cut short and is left out.")
    if not run.info:
        found.append("The run has no run.json: its command, packages and machine are not known.")
    git = run.info.get("git")
    if isinstance(git, dict) and git.get("dirty_sha256"):
        found.append("The code differed from its commit when the run was made.")
    sessions = run.info.get("sessions")
    hosts = [str(one.get("host")) for one in sessions or [] if isinstance(one, dict)]
    if len(set(hosts)) > 1:
        found.append(f"Measured in {len(hosts)} sessions on machines that differ.")
    return found


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - MOST
    return lines if more <= 0 else [*lines[:MOST], f"Unstable TTFT: {more} more points"]
