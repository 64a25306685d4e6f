"""Fig. 13: TTFT against the bandwidth of the chunk store, one panel for each model and dataset."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.figures.panels import (
    DASHES,
    SMALL,
    TEXT,
    WARNING,
    build,
    describe,
    look_of,
    save,
    say,
    typesize,
)
from bench.figures.style import REFERENCES, MethodStyle, full_label, theme, variant_label
from bench.results.conditions import cautions, instruction_cached
from bench.results.crossing import Crossing, crossings
from bench.results.paper_setup import MARKED, UTILISATION, UTILISATION_RANGE, relative
from bench.results.points import COLD_PREFILL, FULL_PREFILL, PREFILLS, dataset_notes, spread
from bench.results.summary import summarise

GAP = 2.3
"""Where "no throttle" stands, as a multiple of the highest bandwidth."""
GREY = "#8A8A8A"
SEEN = 0.01
"""The least share of TTFT at which selection has a bar."""


@dataclass(frozen=True)
class _Axis:
    """A panel's bandwidth axis: `unit` in bytes/s, measured x rising, where "none" stands (or nowhere)."""

    unit: float
    measured: list[float]
    unthrottled: float | None

    @property
    def ends(self) -> tuple[float, float]:
        """First and last x shown."""
        return self.measured[0] / 1.25, (self.unthrottled or self.measured[-1]) * 1.35


def plot(
    frame: pd.DataFrame,
    run_info: dict[str, Any],
    out_dir: Path,
    summary: pd.DataFrame | None = None,
    found: list[Crossing] | None = None,
) -> list[Path]:
    """Write fig13.png and fig13.svg into `out_dir`; returns their paths.

    `summary` is `summarise(frame, over="bandwidth")`, `found` is `crossings(frame)`, where the caller has
    them already.
    """
    with mpl.rc_context():
        theme()
        return save(draw(frame, run_info, summary, found), out_dir, "fig13")


def draw(
    frame: pd.DataFrame,
    run_info: dict[str, Any],
    summary: pd.DataFrame | None = None,
    found: list[Crossing] | None = None,
) -> Figure:
    """Draw the grid: a row a model, a column a dataset; x bandwidth (log), y median TTFT (s).

    As the paper's Fig. 13 (section 4.4), with 95 % intervals over requests; bars are the median time of
    selection, the paper's "select in prefill".
    """
    points = summarise(frame, over="bandwidth") if summary is None else summary
    points = points[points["method"] != COLD_PREFILL]
    found = crossings(frame) if found is None else found
    models, datasets = list(frame["model"].unique()), list(frame["dataset"].unique())
    look = look_of(points)
    notes = dataset_notes(run_info)
    figure, axes = build(
        (max(1, len(models)), max(1, len(datasets))), points,
        _caption(points, run_info, frame),
        "Bandwidth of the store, relative: 1x loads the whole cache in the time of a full prefill",
        "TTFT, median (s)", legends=_legends(points, look, instruction_cached(run_info)),
        panel_inches=3.3 if len(datasets) < 3 else 2.6,
    )  # fmt: skip
    for row, model in enumerate(models):
        for column, dataset in enumerate(datasets):
            ax = axes[row, column]
            here = points[(points["model"] == model) & (points["dataset"] == dataset)]
            some = [one for one in found if (one.model, one.dataset) == (model, dataset)]
            _panel(ax, here.dropna(subset=["ttft_s"]), look, some)
            title = f"{model.rsplit('/', 1)[-1]}, {dataset}"
            note = f"\n{notes[dataset]}" if dataset in notes else ""
            ax.set_title(title + note, fontsize=typesize(ax, TEXT), linespacing=1.2, pad=6)
    return figure


def _panel(ax: Axes, points: pd.DataFrame, look: dict[str, MethodStyle], found: list[Crossing]) -> None:
    units = points["bandwidth_unit"].dropna()
    throttled = points.dropna(subset=["bandwidth_bytes_per_s"])
    if throttled.empty or units.empty:
        say(ax, "no measured request\nunder a throttle")
        ax.set(xticks=[], yticks=[])
        return
    unit = float(units.median())
    measured = sorted({float(rate) / unit for rate in throttled["bandwidth_bytes_per_s"]})
    curves = points[~points["method"].isin(PREFILLS)]
    unthrottled = measured[-1] * GAP if (curves["bandwidth"] == "none").any() else None
    axis = _Axis(unit, measured, unthrottled)
    full = points[points["method"] == FULL_PREFILL]
    if len(full):
        _reference(ax, full.iloc[0], look[FULL_PREFILL])
    names = [
        (method, variant)
        for method in look
        for variant in sorted(curves.loc[curves["method"] == method, "variant"].unique())
    ]
    drawn: list[tuple[pd.DataFrame, MethodStyle]] = []
    for method, variant in names:
        curve = curves[curves["variant"] == variant]
        x = (curve["bandwidth_bytes_per_s"] / unit).fillna(axis.unthrottled or np.nan)
        curve = curve.assign(x=x).sort_values("x")
        dash = DASHES[[v for m, v in names if m == method].index(variant) % len(DASHES)]
        _curve(ax, curve, look[method], dash, axis)
        drawn.append((curve, look[method]))
    _select_bars(ax, drawn, axis)
    for one in found:
        if one.where == "inside":
            ax.plot(
                one.position / unit, one.full_s, marker="o", markersize=8, fillstyle="none",
                color=look[one.method].colour, markeredgewidth=1.2, zorder=6,
            )  # fmt: skip
    _axes(ax, axis)
    top = max(points["ttft_s"].max(), points["ttft_high_s"].max())
    ax.set_ylim(0, top * 1.15)
    _paper_marks(ax, axis)


def _reference(ax: Axes, full: pd.Series, look: MethodStyle) -> None:
    if not np.isnan(full["ttft_low_s"]):
        ax.axhspan(
            full["ttft_low_s"], full["ttft_high_s"], color=look.colour, alpha=0.1, linewidth=0, zorder=1
        )
    ax.axhline(full["ttft_s"], color=look.colour, linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)


def _curve(ax: Axes, curve: pd.DataFrame, look: MethodStyle, dash: str, axis: _Axis) -> None:
    line: dict[str, Any] = {"color": look.colour, "linewidth": 1.2, "zorder": 4}
    throttled = curve[curve["bandwidth"] != "none"]
    ax.plot(throttled["x"], throttled["ttft_s"], linestyle=dash, **line)
    if axis.unthrottled is not None and len(throttled) < len(curve):
        # across the break of the axis there is nothing to interpolate
        ax.plot(curve["x"].iloc[-2:], curve["ttft_s"].iloc[-2:], linestyle=":", **line | {"linewidth": 0.8})
    ax.plot(
        curve["x"], curve["ttft_s"], linestyle="none", color=look.colour, marker=look.marker, markersize=5,
        markeredgecolor="white", markeredgewidth=0.4, zorder=5,
    )  # fmt: skip
    known = curve.dropna(subset=["ttft_low_s", "ttft_high_s"])
    if len(known):
        around = [known["ttft_s"] - known["ttft_low_s"], known["ttft_high_s"] - known["ttft_s"]]
        ax.errorbar(
            known["x"], known["ttft_s"], yerr=np.vstack(around).clip(min=0), fmt="none", ecolor=look.colour,
            elinewidth=0.9, capsize=1.8, capthick=0.7, alpha=0.75, zorder=4,
        )  # fmt: skip


def _select_bars(ax: Axes, drawn: list[tuple[pd.DataFrame, MethodStyle]], axis: _Axis) -> None:
    """Median selection seconds as bars side by side at every bandwidth; no bar under `SEEN` of the TTFT."""
    seen = [(c, look) for c, look in drawn if (c["select_s"] >= SEEN * c["ttft_s"]).any()]
    if not seen:
        return
    low, high = axis.ends
    # in natural logarithms of bandwidth; neighbours do not touch
    apart = [np.log(b / a) for a, b in pairwise(axis.measured)]
    width = min(0.05 * np.log(high / low), 0.8 * min(apart, default=1.0)) / max(len(seen), 2)
    for number, (curve, look) in enumerate(seen):
        left = curve["x"] * np.exp((number - len(seen) / 2) * width)
        ax.bar(
            left, curve["select_s"], width=left * (np.exp(width) - 1), align="edge", color=look.colour,
            alpha=0.45, linewidth=0, zorder=3,
        )  # fmt: skip


def _axes(ax: Axes, axis: _Axis) -> None:
    ax.set_xscale("log")
    low, high = axis.ends
    ax.set_xlim(low, high)
    ticks = _apart(axis.measured, _label_share(ax) * np.log(high / low))
    places = ticks if axis.unthrottled is None else [*ticks, axis.unthrottled]
    words = [f"{tick:.3g}x" for tick in ticks]
    size = typesize(ax, SMALL)
    ax.set_xticks(places, words if axis.unthrottled is None else [*words, "no\nthrottle"], fontsize=size)
    ax.set_xticks([], minor=True)
    ax.tick_params(axis="y", labelsize=size)
    top = ax.secondary_xaxis("top")
    scale, name = _scale(axis.unit)
    absolute = [tick * axis.unit / scale for tick in ticks]
    top.set_xticks(ticks, [f"{at:.2g}" if at < 10 else f"{at:.0f}" for at in absolute], fontsize=size)
    top.set_xticks([], minor=True)
    top.tick_params(width=0.6, length=3)
    top.set_xlabel(f"bandwidth here ({name})", fontsize=size, color="#444444")
    if axis.unthrottled is not None:
        middle = (axis.measured[-1] * axis.unthrottled) ** 0.5
        ax.text(
            middle, 0, "//", transform=ax.get_xaxis_transform(), ha="center", va="center", zorder=9,
            fontsize=size * 1.5, color="#444444",
        )  # fmt: skip


def _scale(unit: float) -> tuple[float, str]:
    """The unit of bytes/s in which 1x is 0.2 or more, and its name."""
    for scale, name in ((1e9, "GB/s"), (1e6, "MB/s")):
        if unit >= 0.2 * scale:
            return scale, name
    return 1e3, "kB/s"


def _label_share(ax: Axes) -> float:
    """The share of the panel's width that a tick's label takes."""
    figure, place = ax.get_figure(root=True), ax.get_subplotspec()
    assert figure is not None
    assert place is not None
    width = figure.get_figwidth() / place.get_gridspec().ncols - 0.45
    return 0.26 * typesize(ax, SMALL) / SMALL / width


def _apart(values: list[float], distance: float) -> list[float]:
    """The values that stand at least `distance` apart in natural logarithms, from the highest down."""
    kept: list[float] = []
    for value in reversed(values):
        if not kept or np.log(kept[-1] / value) >= distance:
            kept.append(value)
    return kept[::-1]


def _paper_marks(ax: Axes, axis: _Axis) -> None:
    for rate in MARKED:
        x = relative(rate)
        if axis.measured[0] <= x <= axis.measured[-1] * 1.2:
            ax.axvline(x, color=GREY, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
            ax.text(
                x, 0.985, f"paper's {rate / 1e9:.0f} GB/s\n(about {x:.2g}x)", rotation=90, ha="right",
                va="top", linespacing=1.1, color=GREY, fontsize=typesize(ax, SMALL) * 0.92,
                transform=ax.get_xaxis_transform(),
            )  # fmt: skip


def _legends(
    points: pd.DataFrame, look: dict[str, MethodStyle], cached: bool
) -> tuple[list[Artist], list[Artist]]:
    methods: list[Artist] = []
    for method, style in look.items():
        variants = sorted(points.loc[points["method"] == method, "variant"].unique())
        for number, variant in enumerate(variants):
            handle = Line2D([], [], color=style.colour, markersize=5, linewidth=1.2, markeredgecolor="white")
            handle.set(label=full_label(variant_label(method, variant), cached), markeredgewidth=0.4)
            handle.set_linestyle((0, (4, 2)) if method == FULL_PREFILL else DASHES[number % len(DASHES)])
            handle.set_marker("" if method == FULL_PREFILL else style.marker)
            methods.append(handle)
    ring = Line2D([], [], linestyle="none", marker="o", markersize=7, fillstyle="none", color="#555555")
    ring.set_label("crossing with full prefill")
    return methods, [Patch(color="#999999", alpha=0.6, label="bars: selection, part of TTFT"), ring]


def _caption(points: pd.DataFrame, run_info: dict[str, Any], frame: pd.DataFrame) -> str:
    marks = " and ".join(
        f"{rate / 1e9:.0f} GB/s = {relative(rate):.2g}x "
        f"({relative(rate, UTILISATION_RANGE[1]):.2g} to {relative(rate, UTILISATION_RANGE[0]):.2g}x)"
        for rate in MARKED
    )
    rhos = sorted(points.loc[~points["method"].isin(REFERENCES), "rho"].unique())
    ratios = f"ρ = {', '.join(f'{rho:g}' for rho in rhos)}. " if rhos else ""
    low, high = UTILISATION_RANGE
    lines = [
        f"{ratios}n = {spread(points['n'])} requests a point. Whiskers and band: 95 % interval, percentile "
        f"bootstrap over requests (none where n = 1). Bars: median of selection, none where it is under "
        f"{SEEN:.0%} of TTFT. Full prefill reads no cache. {describe(run_info, frame)}",
        f"Paper's bandwidths, computed for Qwen3-8B on an H20 at {UTILISATION:.0%} of its peak, not measured "
        f"({low:.0%} to {high:.0%} in brackets): {marks}.",
    ]
    failed = points.groupby("method")[["n_failed", "n_skipped"]].sum().sum(axis=1)
    if failed.any():
        some = ", ".join(f"{method} {count}" for method, count in failed[failed > 0].items())
        lines.append(f"Failed, out of memory or skipped rows, not drawn: {some}.")
    return "\n".join([*lines, *(f"{WARNING}{text}." for text in cautions(frame, run_info))])
