"""QCFuse minus the best parameter set of each baseline, over ρ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.figures.panels import SMALL, TEXT, WARNING, build, caveats, describe, save, typesize
from bench.figures.style import MethodStyle, styles, theme
from bench.results.best_variant import BestFoot
from bench.results.conditions import cautions

NAME = "fig10_best"
APART = 0.012
"""Between neighbouring methods on the axis of ρ, so that intervals do not hide each other."""


def plot(feet: list[BestFoot], frame: pd.DataFrame, run_info: dict[str, Any], out_dir: Path) -> list[Path]:
    """Write fig10_best (png, svg) into `out_dir`; returns their paths, none where `feet` is empty."""
    if not feet:
        return []
    with mpl.rc_context():
        theme()
        return save(draw(feet, frame, run_info), out_dir, NAME)


def draw(feet: list[BestFoot], frame: pd.DataFrame, run_info: dict[str, Any]) -> Figure:
    """Draw a panel a model: x nominal ρ, y the difference of mean scores with simultaneous 95 % intervals.

    Filled: against the best parameter set measured of the baseline; hollow: against the paper's rule.
    """
    models = list(dict.fromkeys(foot.model for foot in feet))
    look = styles(foot.baseline for foot in feet)
    figure, axes = build(
        (1, len(models)), frame, _caption(feet, frame, run_info), "Recomputation ratio ρ (nominal)",
        "QCFuse minus baseline, score", panel_inches=2.4, legends=(_handles(look), []),
    )  # fmt: skip
    for ax, model in zip(axes[0], models, strict=True):
        ax.axhline(0, color="#666666", linewidth=0.8, zorder=1)
        for number, (method, style) in enumerate(look.items()):
            some = sorted((f for f in feet if (f.model, f.baseline) == (model, method)), key=lambda f: f.rho)
            x = np.array([f.rho for f in some]) + (number - (len(look) - 1) / 2) * APART
            y = np.array([f.gap.value for f in some])
            bars = np.array([[f.gap.value - f.gap.low, f.gap.high - f.gap.value] for f in some]).T
            ax.errorbar(
                x, y, yerr=bars, fmt=style.marker, color=style.colour, markersize=5, elinewidth=0.9,
                capsize=2, markeredgecolor="white", markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
            rules = [(at, f.rule.value) for at, f in zip(x, some, strict=True) if f.rule and f.best]
            ax.scatter(
                [at for at, _ in rules], [value for _, value in rules], s=16, facecolors="none",
                edgecolors=style.colour, marker=style.marker, linewidths=0.8, zorder=3,
            )  # fmt: skip
        ax.set_xticks(sorted({foot.rho for foot in feet}))
        ax.tick_params(labelsize=typesize(ax, SMALL))
        n = next(foot.gap.n for foot in feet if foot.model == model)
        ax.set_title(f"{model.rsplit('/', 1)[-1]}, n = {n}", fontsize=typesize(ax, TEXT), pad=4)
    return figure


def _handles(look: dict[str, MethodStyle]) -> list[Line2D]:
    return [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=5, linestyle="", label=style.label)
        for style in look.values()
    ]


def _caption(feet: list[BestFoot], frame: pd.DataFrame, run_info: dict[str, Any]) -> str:
    about = (
        "Filled: against the baseline's best parameter set measured, picked after the fact; hollow: against "
        "the paper's rule, where that is another. Mean over datasets, each weighing the same. Bars: 95 % "
        "interval, bootstrap over requests, simultaneous over a baseline's parameter sets. Above 0: QCFuse "
        "leads."
    )
    lines = [f"{about} {describe(run_info, frame)}", *caveats(list(frame["dataset"].unique()), run_info)]
    return "\n".join([*lines, *(f"{WARNING}{text}." for text in cautions(frame, run_info))])
