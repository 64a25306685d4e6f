"""Fig. 10: quality and TTFT of every method over rho, one panel for each model and dataset."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
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
from bench.figures.style import label, theme, variant_label
from bench.results.conditions import cautions
from bench.results.effective import other_ratios
from bench.results.endings import MANY, often_cut
from bench.results.points import dataset_notes, family, spread
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
    points = named(points, run_info)
    # in the order of the experiment, which is the order of its rows
    models, datasets = list(frame["model"].unique()), list(frame["dataset"].unique())
    notes = dataset_notes(run_info)
    look = look_of(points)
    caption = "\n".join([*_caption(points, run_info, frame), *closing(points, frame, run_info)])
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
                n = spread(points.loc[points["dataset"] == dataset, "n"])
                title = f"{dataset} ({family(metric)}), n = {n}"
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


def _caption(points: pd.DataFrame, run_info: dict[str, Any], frame: pd.DataFrame) -> list[str]:
    bars = "Bars: 95 % interval, percentile bootstrap over requests (none where n = 1)."
    guides = "Dashed: full prefill and direct reuse."
    return [
        f"n = {spread(points['n'])} requests a point. {bars} Marker size: recomputation ratio ρ. {guides} "
        f"{describe(run_info, frame)}"
    ]


def closing(points: pd.DataFrame, frame: pd.DataFrame, run_info: dict[str, Any]) -> list[str]:
    """The last lines of a caption of quality: other ratios than asked for, thin lines, cut answers, rows not
    drawn, and what to beware of."""
    lines = []
    shown = points[~points["thin"]]
    if ratios := other_ratios(shown):
        texts = [
            f"{_name(variant)} {', '.join(f'{done:.2f} at {asked:g}' for asked, done in pairs)}"
            for variant, pairs in ratios.items()
        ]
        lines.append(f"Effective ratio (rows recomputed, mean over layers) other than ρ: {'; '.join(texts)}.")
    if points["thin"].any():
        methods = [label(str(name)) for name in points.loc[points["thin"], "method"].unique()]
        lines.append(f"Thin: other parameters than the paper's rule ({', '.join(methods)}); see the tables.")
    if cut := often_cut(shown):
        texts = [f"{name} up to {share:.0%} ({_name(variant)})" for name, (share, variant) in cut.items()]
        lines.append(f"Answers cut at the limit of new tokens, where over {MANY:.0%}: {'; '.join(texts)}.")
    failed = points.groupby("method")[["n_failed", "n_skipped"]].sum().sum(axis=1)
    if failed.any():
        some = ", ".join(f"{method} {count}" for method, count in failed[failed > 0].items())
        lines.append(f"Failed, out of memory or skipped rows, not drawn: {some}.")
    return [*lines, *(f"{WARNING}{text}." for text in cautions(frame, run_info))]


def _name(variant: str) -> str:
    return variant_label(variant.partition("(")[0], variant)
