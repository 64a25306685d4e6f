"""Fig. 11: the aggregate over models and datasets, normalised by full prefill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from bench.figures.panels import (
    TEXT,
    WARNING,
    build,
    describe,
    draw_panel,
    look_of,
    named,
    save,
    say,
    typesize,
)
from bench.figures.style import theme
from bench.results.aggregate import aggregate
from bench.results.conditions import cautions
from bench.results.points import dataset_notes, family, spread


def plot(frame: pd.DataFrame, run_info: dict[str, Any], out_dir: Path) -> list[Path]:
    """Write fig11.png and fig11.svg into `out_dir`; returns their paths."""
    with mpl.rc_context():
        theme()
        return save(draw(frame, run_info), out_dir, "fig11")


def draw(frame: pd.DataFrame, run_info: dict[str, Any]) -> Figure:
    """Draw one panel for each metric family; x and y are ratios to full prefill.

    As the paper's Fig. 11 (section 4.2): Normalized-F1 and Normalized-SM against normalised TTFT.
    """
    points = aggregate(frame).rename(
        columns={
            "quality": "y", "quality_low": "y_low", "quality_high": "y_high",
            "ttft": "x", "ttft_low": "x_low", "ttft_high": "x_high",
        }
    )  # fmt: skip
    points = named(points, run_info)
    families = sorted(frame["metric"].map(family).unique()) or ["score"]
    look = look_of(points)
    caption = _caption(frame, points, run_info)
    figure, axes = build((1, len(families)), points, caption, "Normalised TTFT (full prefill = 1)")
    notes = dataset_notes(run_info)
    for ax, name in zip(axes[0], families, strict=True):
        panel = points[points["family"] == name]
        if panel.empty:
            say(ax, "cannot be normalised:\nno full prefill, or it scores 0", warning=True)
            ax.set(xticks=[], yticks=[])
        else:
            draw_panel(ax, panel, look)
        datasets = sorted(frame.loc[frame["metric"].map(family) == name, "dataset"].unique())
        caveats = sorted({notes[dataset] for dataset in datasets if dataset in notes})
        ax.set_title("\n".join([", ".join(datasets), *caveats]), fontsize=typesize(ax, TEXT), wrap=True)
        ax.set_ylabel(f"Normalized-{name}", fontsize=typesize(ax, TEXT))
    return figure


def _caption(frame: pd.DataFrame, points: pd.DataFrame, run_info: dict[str, Any]) -> str:
    lines = [
        f"Means over panels (model x dataset), each divided by full prefill; {spread(points['n_panels'])} "
        f"panel(s) and n = {spread(points['n'])} requests a point. Bars: 95 % interval, percentile bootstrap "
        f"over requests inside panels. Marker size: recomputation ratio ρ. "
        f"{describe(run_info, frame)}"
    ]
    if points["thin"].any():
        lines.append("Thin: other parameters than the paper's rule; see the tables.")
    partial = points[points["n_panels"] < points["n_panels_all"]]
    for (variant, name), some in partial.groupby(["variant", "family"]):
        share = f"{some['n_panels'].min()} of {some['n_panels_all'].iloc[0]}"
        lines.append(f"WARNING: {variant} rests on {share} {name} panels: compare with care.")
    return "\n".join([*lines, *(f"{WARNING}{text}." for text in cautions(frame, run_info))])
