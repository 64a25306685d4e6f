"""Data of the interactive quality-TTFT plot: one panel for each run, model and dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from bench.figures.style import REFERENCES, order, styles
from bench.reports.run_view import RunView
from bench.reports.text import visible
from bench.results.points import PANEL, PAPER, PREFILLS, aside, dataset_notes, family
from bench.results.recorded import slowest_first

NUMBERS = (
    "score", "score_low", "score_high", "ttft_s", "ttft_low_s", "ttft_high_s", "speedup", "speedup_low",
    "speedup_high", "rho_effective", "at_limit",
)  # fmt: skip


def pareto(runs: Sequence[RunView]) -> list[dict[str, Any]]:
    """The panels that have a measured point; times in seconds, scores in [0, 1].

    A panel: {run, model, dataset, metric, note, predicted, bandwidths, points}; a point: {method, label,
    colour, marker, rho, bandwidth, n, reference} and `NUMBERS`. Full prefill loads nothing: its bandwidth is
    None and it stands beside every other.
    """
    return [panel for run in runs for panel in _panels(run)]


def _panels(run: RunView) -> list[dict[str, Any]]:
    notes = dataset_notes(run.info)
    look = styles(run.frame["method"].unique())
    ranks = {name: rank for rank, name in enumerate(order(look))}
    panels = []
    for model, dataset in run.frame[PANEL].drop_duplicates().itertuples(index=False):
        points = run.summary[(run.summary["model"] == model) & (run.summary["dataset"] == dataset)]
        points = points.assign(aside=aside(points))
        known = points.dropna(subset=["score", "ttft_s"])
        lines = sorted(
            known.to_dict("records"),
            key=lambda one: (ranks[str(one["method"])], one["params"] != PAPER, one["params"]),
        )
        if not lines:
            continue
        others = [str(one["bandwidth"]) for one in lines if one["method"] not in PREFILLS]
        panels.append(
            {
                "run": visible(run.name), "model": visible(model), "dataset": visible(dataset),
                "metric": visible(family(str(lines[0]["metric"]))),
                "note": visible(notes.get(str(dataset), "")), "predicted": run.predicted,
                "bandwidths": slowest_first(others),
                "points": [_point(run, one, look[str(one["method"])]) for one in lines],
            }
        )  # fmt: skip
    return panels


def _point(run: RunView, line: dict[Any, Any], look: Any) -> dict[str, Any]:
    method = str(line["method"])
    return {
        "method": visible(method), "label": visible(run.labels[method, line["params"]]),
        "colour": look.colour, "marker": look.marker, "rho": line["rho"], "n": int(line["n"]),
        "bandwidth": None if method in PREFILLS else str(line["bandwidth"]),
        "reference": method in REFERENCES, "aside": bool(line["aside"]),
        **{name: None if pd.isna(line[name]) else float(f"{line[name]:.5g}") for name in NUMBERS},
    }  # fmt: skip
