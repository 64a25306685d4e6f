"""The figures of a run inside the page: picture, caption, where its numbers come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.figures.panels import describe
from bench.reports.embed import data_uri
from bench.reports.remarks import lost
from bench.reports.run_view import RunView
from bench.results.points import dataset_notes, spread
from bench.results.shown import long_instructions

CAPTIONS = {
    "fig01": "Fig. 1: where the time to first token goes. Mean of every stage for each method.",
    "fig09": "Fig. 9: one request as it was measured: what each method selects, loads and computes when.",
    "fig10": "Fig. 10: quality against TTFT for every method over ρ, a panel for each model and dataset.",
    "fig10_ratio": "Quality over the effective recomputation ratio, a panel for each model and dataset.",
    "fig10_recall": "Recall of the evidence over the effective ratio: answer tokens, whole needle dashed.",
    "fig10_best": "QCFuse minus the best parameter set measured of each baseline, over ρ.",
    "fig11": "Fig. 11: quality and TTFT normalised by full prefill's, mean over the panels of a metric.",
    "fig13": "Fig. 13: TTFT against the bandwidth of the store, and where a method crosses full prefill.",
}
INTERVALS = "Intervals: 95 %, percentile bootstrap over requests (none where n = 1)."
SVG_SHARE = 2.0
"""An SVG, sharp at any size, is taken where it is no larger than this many times the PNG."""
SVG_MOST = 600_000
"""Bytes of an SVG beyond which the smaller file is taken."""


@dataclass(frozen=True)
class Figure:
    """A picture as a data: address, its name and caption, notes that must stand with it, and its files."""

    name: str
    uri: str
    caption: str
    notes: list[str]
    predicted: bool


def figures(run: RunView) -> list[Figure]:
    """The run's figures in the order they were written."""
    by_name: dict[str, list[Path]] = {}
    for path in run.files:
        if path.suffix in (".png", ".svg"):
            by_name.setdefault(path.stem, []).append(path)
    about = [*dataset_notes(run.info).items(), *long_instructions(run.folder.path).items()]
    notes = [f"{dataset}: {note}" for dataset, note in about] + lost(run.info)
    return [
        Figure(name, data_uri(smaller(paths)), _caption(name, run), notes, run.predicted)
        for name, paths in by_name.items()
    ]


def smaller(paths: Sequence[Path]) -> Path:
    """Of a figure's files the one to put into the page."""
    sizes = {path: path.stat().st_size for path in paths}
    best = min(sizes, key=lambda path: sizes[path])
    for path, size in sizes.items():
        if path.suffix == ".svg" and size <= min(SVG_SHARE * sizes[best], SVG_MOST):
            return path
    return best


def link(path: Path, page: Path) -> str:
    """The address of a file, relative to the folder `page` that holds the page."""
    return quote(os.path.relpath(path.resolve(), page.resolve()))


def _caption(name: str, run: RunView) -> str:
    about = CAPTIONS.get(name, f"{name}.")
    if name != "fig09":
        about += f" n = {spread(run.summary['n'])} requests a point. {INTERVALS}"
    return f"{about} {describe(run.info, run.frame)}"
