"""Fig. 10: quality and TTFT of every method over rho, one panel for each model and dataset."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.figures.panels import TEXT, build, describe, draw_panel, look_of, save, say, spread, typesize
from bench.figures.style import theme
from bench.results.points import alarms, dataset_notes, family
from bench.results.summary import summarise


def plot(
    frame: pd.DataFrame, run_info: dict[str, Any], out_dir: Path, summary: pd.DataFrame | None = None
) -> list[Path]:
    """Write fig10.png and fig10.svg into `out_dir`; returns their paths.

    `frame` holds rows, `summary` is `summarise(frame)` where the caller has it already.
    """
    with mpl.rc_context():
        theme()
        return save(draw(frame, run_info, summary), out_dir, "fig10")


def draw(frame: pd.DataFrame, run_info: dict[str, Any], summary: pd.DataFrame | None = None) -> Figure:
    """Draw the grid: a row a model, a column a dataset; x median TTFT (s), y mean score.

    As the paper's Fig. 10 (section 4.2), with 95 % intervals over requests on both axes.
    """
    points = (summarise(frame) if summary is None else summary).rename(
        columns={
            "score": "y", "score_low": "y_low", "score_high": "y_high",
            "ttft_s": "x", "ttft_low_s": "x_low", "ttft_high_s": "x_high",
        }
    )  # fmt: skip
    # in the order of the experiment, which is the order of its rows
    models, datasets = list(frame["model"].unique()), list(frame["dataset"].unique())
    notes = dataset_notes(run_info)
    look = look_of(points)
    caption = _caption(points, run_info, models, alarms(frame))
    shape = max(1, len(models)), max(1, len(datasets))
    figure, axes = build(shape, points, caption, "TTFT, median (s)", "Quality, mean score")
    for row, model in enumerate(models):
        for column, dataset in enumerate(datasets):
            ax = axes[row, column]
            panel = points[(points["model"] == model) & (points["dataset"] == dataset)]
            if panel.empty:
                say(ax, "not run")
                ax.set(xticks=[], yticks=[])
            else:
                draw_panel(ax, panel, look)
                _warn(ax, panel)
            if not row:
                metric = points.loc[points["dataset"] == dataset, "metric"].iloc[0]
                width = max(18, 84 // len(datasets))
                title = f"{dataset} ({family(metric)})"
                note = fill(notes[dataset], width, break_on_hyphens=False) if dataset in notes else ""
                ax.set_title(f"{title}\n{note}".strip(), fontsize=typesize(ax, TEXT), linespacing=1.2, pad=4)
        first = axes[row, 0]
        name = fill(model.rsplit("/", 1)[-1], 24)
        first.set_ylabel(name, fontsize=typesize(first, TEXT), fontweight="bold")
    return figure


def _warn(ax: Axes, panel: pd.DataFrame) -> None:
    scores = panel["y"].dropna()
    if len(scores) and ((scores == 0).all() or (scores == 1).all()):
        say(ax, f"every score is {scores.iloc[0]:.0f}:\nthis panel tells nothing", warning=True)


def _caption(points: pd.DataFrame, run_info: dict[str, Any], models: list[str], warnings: list[str]) -> str:
    bars = "Bars: 95 % interval, percentile bootstrap over requests (none where n = 1)."
    lines = [
        f"n = {spread(points['n'])} requests a point. {bars} Marker size: recomputation ratio ρ. "
        f"Dashed: full prefill and direct reuse. {describe(run_info, models)}"
    ]
    failed = points.groupby("method")[["n_failed", "n_skipped"]].sum().sum(axis=1)
    if failed.any():
        some = ", ".join(f"{method} {count}" for method, count in failed[failed > 0].items())
        lines.append(f"Failed, out of memory or skipped rows, not drawn: {some}.")
    return "\n".join([*lines, *(f"WARNING: {warning}." for warning in warnings)])
