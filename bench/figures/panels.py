"""What Fig. 10 and Fig. 11 share: a quality-TTFT panel, the figure around it, the files."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bench.figures.style import REFERENCES, MethodStyle, full_label, styles, variant_label
from bench.results.conditions import conditions, instruction_cached
from bench.results.points import COLD_PREFILL, aside, dataset_notes

Dash = Literal["-", "--", ":", "-."]
DASHES: list[Dash] = ["-", "--", ":", "-."]
SMALL, TEXT = 6.0, 7.0
"""Type sizes in points at `PAGE` inches of width: `typesize` makes them grow with wider figures."""
PAGE = 7.2
WARNING, RED = "WARNING: ", "#B00020"
"""How a caption's line begins that is a warning, and its colour."""
LINE = 0.125
"""Height of a line of the caption in inches, at the width of a page."""
LEGEND_ROW = 0.145
"""Height of a row of the legend in inches, at the same width."""

Axeses = NDArray[np.object_]


def draw_panel(ax: Axes, points: pd.DataFrame, look: dict[str, MethodStyle]) -> None:
    """Draw one panel: a curve over rho for each variant, the references as single points.

    `points` has a line for each operating point: method, variant, rho, and x, x_low, x_high, y,
    y_low, y_high. The marker grows with rho; bars span low to high where both are known. Optional columns:
    `thin` (bool) draws a curve as a faint line alone, `tag` (text) is written beside the marker.
    """
    known = points.dropna(subset=["x", "y"])
    if known.empty:
        say(ax, "no measured request")
        ax.set(xticks=[], yticks=[])
        return
    for method in reversed([name for name in look if name in set(known["method"])]):
        of_method = known[known["method"] == method]
        for number, (_, curve) in enumerate(of_method.groupby("variant")):
            _curve(ax, curve.sort_values("rho"), look[method], DASHES[number % len(DASHES)])
        if "tag" in of_method:
            _tags(ax, of_method, look[method])
    _limits(ax, known)
    ax.text(
        0.02,
        0.97,
        "↖ better",
        transform=ax.transAxes,
        va="top",
        color="#8A8A8A",
        fontsize=typesize(ax, SMALL),
    )


def typesize(ax: Axes, points: float) -> float:
    """A type size that is `points` once the figure is scaled down to the width of a page."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return points * _scale(figure.get_figwidth())


def say(ax: Axes, message: str, *, warning: bool = False) -> None:
    """Write a message across a panel, in red where it is a warning."""
    colour = RED if warning else "#8A8A8A"
    ax.text(
        0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color=colour,
        fontsize=typesize(ax, TEXT), zorder=10, wrap=True,
    )  # fmt: skip


def build(
    shape: tuple[int, int],
    points: pd.DataFrame,
    caption: str,
    x_label: str,
    y_label: str = "",
    *,
    legends: tuple[Sequence[Artist], Sequence[Artist]] | None = None,
    panel_inches: float | None = None,
) -> tuple[Figure, Axeses]:
    """An empty grid of panels (rows, columns); the legend above it and the caption below, off the data.

    `legends` takes the place of the methods and the marker sizes of rho, `panel_inches` that of a panel's
    height.
    """
    rows, columns = shape
    width = 5.0 if columns == 1 else PAGE if columns <= 4 else 1.7 * columns
    scale = _scale(width)
    row = LEGEND_ROW * scale
    methods, ratios = legends or (_method_handles(points), _rho_handles(points))
    widest = max((len(str(handle.get_label())) for handle in methods), default=0) * 0.058 * scale + 0.42
    per_row = max(1, min(len(methods), int((width - 0.2) / widest)))
    per_row = math.ceil(len(methods) / math.ceil(max(len(methods), 1) / per_row))
    legend_rows = math.ceil(len(methods) / max(per_row, 1))
    above = 0.1 + row * (legend_rows + bool(ratios))
    parts, per_line = caption.split("\n"), int(width * 20.5 / scale)
    lines, warnings = (
        [line for part in parts if part.startswith(WARNING) == red for line in textwrap.wrap(part, per_line)]
        for red in (False, True)
    )
    caption_height = 0.08 + LINE * scale * len(lines + warnings)
    below = caption_height + 0.17 * scale
    height = rows * (panel_inches or (2.6 if columns == 1 else 1.95)) + above + below
    figure = Figure(figsize=(width, height), layout="constrained")
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, below / height, 1, 1 - (above + below) / height))
    axes: Axeses = figure.subplots(rows, columns, squeeze=False)
    # left to itself the layout puts it below the caption
    below_axes = figure.supxlabel(
        x_label, fontsize=(TEXT + 1) * scale, y=(caption_height + 0.03) / height, va="bottom"
    )
    below_axes.set_in_layout(False)
    figure.supylabel(y_label, fontsize=(TEXT + 1) * scale)
    _legend(figure, methods, per_row, 0.02 / height)
    _legend(figure, ratios, max(len(ratios), 1), (0.02 + row * legend_rows) / height)
    above_red = 0.04 + LINE * scale * len(warnings)
    for some, colour, at in ((lines, "#444444", above_red), (warnings, RED, 0.04)):
        text = figure.text(
            0.01, at / height, "\n".join(some), fontsize=SMALL * scale, va="bottom", color=colour
        )
        text.set_in_layout(False)
    return figure, axes


def save(figure: Figure, out_dir: Path, name: str) -> list[Path]:
    """Write `name`.png (200 dpi) and `name`.svg into `out_dir`; returns both paths."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = [out_dir / f"{name}.png", out_dir / f"{name}.svg"]
    figure.savefig(paths[0], dpi=200, facecolor="white")
    # no date: the same figure twice is the same file
    figure.savefig(paths[1], facecolor="white", metadata={"Date": None})
    return paths


def caveats(datasets: Sequence[str], run_info: dict[str, Any]) -> list[str]:
    """A line for each of these datasets that is not what its name suggests, for figures whose titles have no
    room for it."""
    notes = dataset_notes(run_info)
    return [f"{name}: {notes[name]}." for name in datasets if name in notes]


def describe(run_info: dict[str, Any], frame: pd.DataFrame) -> str:
    """The caption's words on where the numbers come from: models, profile, conditions of the run."""
    models = list(frame["model"].unique())
    parts = [f"Model{'s' if len(models) > 1 else ''}: {', '.join(models)}."]
    if run_info.get("profile"):
        parts.append(f"Profile: {run_info['profile']}.")
    return " ".join([*parts, *conditions(frame, run_info)])


def named(points: pd.DataFrame, run_info: dict[str, Any]) -> pd.DataFrame:
    """`points` with `label` for the legend, and `thin`: a curve beside the paper's rules (`aside`)."""
    cached = instruction_cached(run_info)
    pairs = zip(points["method"], points["variant"], strict=True)
    labels = [full_label(variant_label(str(method), str(variant)), cached) for method, variant in pairs]
    return points.assign(label=labels, thin=aside(points))


def look_of(points: pd.DataFrame) -> dict[str, MethodStyle]:
    """The styles of the methods in `points`."""
    return styles(points["method"].unique())


def _curve(ax: Axes, curve: pd.DataFrame, look: MethodStyle, dash: Dash) -> None:
    x, y = curve["x"].to_numpy(), curve["y"].to_numpy()
    method = curve["method"].iloc[0]
    reference = method in REFERENCES
    if "thin" in curve and curve["thin"].any():
        ax.plot(x, y, color=look.colour, linewidth=0.6, linestyle=dash, alpha=0.5, zorder=1.5, label="_")
        return
    if reference and method != COLD_PREFILL:
        for line, at in ((ax.axhline, y[0]), (ax.axvline, x[0])):
            line(at, color=look.colour, linewidth=0.6, linestyle=(0, (4, 3)), alpha=0.45, zorder=1)
    for way, low, high in (("xerr", "x_low", "x_high"), ("yerr", "y_low", "y_high")):
        centre = x if way == "xerr" else y
        bars = np.vstack([centre - curve[low], curve[high] - centre]).clip(min=0)
        shown = ~np.isnan(bars).any(axis=0)
        if shown.any():
            bar: dict[str, Any] = {way: bars[:, shown]}
            ax.errorbar(
                x[shown],
                y[shown],
                **bar,
                fmt="none",
                ecolor=look.colour,
                elinewidth=0.7,
                alpha=0.35,
                zorder=2,
            )
    ax.plot(x, y, color=look.colour, linewidth=1.0, linestyle=dash, zorder=3, label="_")
    sizes = (
        [50.0 if look.marker == "*" else 28.0] * len(x)
        if reference
        else [marker_size(rho) ** 2 for rho in curve["rho"]]
    )
    ax.scatter(
        x, y, s=sizes, color=look.colour, marker=look.marker, edgecolors="white", linewidths=0.4, zorder=4
    )


def _tags(ax: Axes, points: pd.DataFrame, look: MethodStyle) -> None:
    for point in points[points["tag"] != ""].to_dict("records"):
        ax.annotate(
            point["tag"], (point["x"], point["y"]), xytext=(0, 4), textcoords="offset points", ha="center",
            va="bottom", fontsize=typesize(ax, SMALL) * 0.85, color=look.colour, zorder=6,
        )  # fmt: skip


def _scale(width: float) -> float:
    return max(1.0, width / PAGE)


def marker_size(rho: float) -> float:
    """Width of a curve's marker in points: 2.4 at rho 0, 5.4 at rho 0.5 and above."""
    return 2.4 + 6.0 * min(rho, 0.5)


def _limits(ax: Axes, points: pd.DataFrame) -> None:
    low, high = points[["y", "y_low"]].min().min(), points[["y", "y_high"]].max().max()
    span = max(high - low, 0.1)
    # head room keeps the hint off the data
    ax.set_ylim(low - 0.08 * span, high + 0.24 * span)
    ax.set_xlim(0, max(points[["x", "x_high"]].max().max(), 1e-9) * 1.07)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.tick_params(labelsize=typesize(ax, SMALL))


def _method_handles(points: pd.DataFrame) -> list[Line2D]:
    handles = []
    for method, style in look_of(points).items():
        of_method = points[points["method"] == method]
        for number, (variant, curve) in enumerate(of_method.groupby("variant")):
            if "thin" in curve and curve["thin"].any():
                continue
            label = curve["label"].iloc[0] if "label" in curve else variant_label(method, str(variant))
            handle = Line2D([], [], color=style.colour, marker=style.marker, markersize=5, linewidth=1.0)
            handle.set_linestyle("" if method in REFERENCES else DASHES[number % len(DASHES)])
            handle.set(markeredgecolor="white", markeredgewidth=0.4, label=label)
            handles.append(handle)
    return handles


def _rho_handles(points: pd.DataFrame) -> list[Line2D]:
    rhos = sorted(points.loc[~points["method"].isin(REFERENCES), "rho"].unique())
    grey: dict[str, Any] = {"color": "#9A9A9A", "marker": "o", "linestyle": "none"}
    return [Line2D([], [], **grey, markersize=marker_size(rho), label=f"ρ = {rho:g}") for rho in rhos[:8]]


def _legend(figure: Figure, handles: Sequence[Artist], columns: int, below_top: float) -> None:
    if not handles:
        return
    size = TEXT * _scale(figure.get_figwidth())
    legend = figure.legend(
        handles=list(handles), ncols=columns, loc="upper center", bbox_to_anchor=(0.5, 1.0 - below_top),
        frameon=False, fontsize=size, columnspacing=1.2, handletextpad=0.4, labelspacing=0.3,
        borderpad=0.0, borderaxespad=0.0,
    )  # fmt: skip
    # its room is set aside by `build`: the layout must not make it twice
    legend.set_in_layout(False)
