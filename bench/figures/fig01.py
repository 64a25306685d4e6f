"""Fig. 1: where the time to first token goes, one bar a method, in seconds and as shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.figures.panels import SMALL, TEXT, WARNING, build, describe, save, say, typesize
from bench.figures.style import REFERENCES, STAGES, WAITING, order, theme, variant_label
from bench.results.conditions import cautions
from bench.results.points import dataset_notes, spread
from bench.results.stages import stages

HATCH = "/////"
LEGEND = {"load": "load (waited for)"}
"""Where the legend says more than the stage's name."""
SHOWN = 0.06
"""The least share that is written into its piece."""


def plot(
    frame: pd.DataFrame, run_info: dict[str, Any], out_dir: Path, lines: pd.DataFrame | None = None
) -> list[Path]:
    """Write fig01.png and fig01.svg into `out_dir`; returns their paths.

    `lines` is `stages(frame)` where the caller has it already.
    """
    with mpl.rc_context():
        theme()
        # thin lines, so that hatches do not cover what they mark
        mpl.rcParams["hatch.linewidth"] = 0.8
        return save(draw(frame, run_info, lines), out_dir, "fig01")


def draw(frame: pd.DataFrame, run_info: dict[str, Any], lines: pd.DataFrame | None = None) -> Figure:
    """Draw the bars: a row for each (model, dataset); left mean seconds, right shares of the mean TTFT."""
    lines = stages(frame) if lines is None else lines
    panels = [(str(m), str(d)) for m, d in frame[["model", "dataset"]].drop_duplicates().to_numpy()]
    most = max((len(_bars(lines, *panel)) for panel in panels), default=1)
    caption = _caption(lines, run_info, frame)
    figure, axes = build(
        (max(1, len(panels)), 2), lines, caption, "", legends=(_legend(), []),
        panel_inches=0.75 + 0.26 * max(most, 3),
    )  # fmt: skip
    notes = dataset_notes(run_info)
    for row, (model, dataset) in enumerate(panels):
        bars = _bars(lines, model, dataset)
        left, right = axes[row]
        if bars.empty:
            for ax in (left, right):
                say(ax, "no measured request")
                ax.set(xticks=[], yticks=[])
            continue
        _stack(left, bars, bars["ttft_s"] * 0 + 1)
        _totals(left, bars)
        _stack(right, bars, 1 / bars["ttft_s"], labels=True)
        right.set_xlim(0, 1)
        right.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        right.set_yticklabels([])
        if row == len(panels) - 1:
            left.set_xlabel("Mean time to first token (s)", fontsize=typesize(left, TEXT))
            right.set_xlabel("Share of the mean time", fontsize=typesize(right, TEXT))
        note = f" ({notes[dataset]})" if dataset in notes else ""
        left.set_title(
            f"{model.rsplit('/', 1)[-1]}, {dataset}{note}", fontsize=typesize(left, TEXT), loc="left"
        )
    return figure


def _bars(lines: pd.DataFrame, model: str, dataset: str) -> pd.DataFrame:
    """The bars of a panel from top to bottom, in the order of every legend."""
    some = lines[(lines["model"] == model) & (lines["dataset"] == dataset)]
    ranks = {method: rank for rank, method in enumerate(order(some["method"].unique()))}
    return some.assign(rank=some["method"].map(ranks)).sort_values(
        ["rank", "variant", "rho"], ignore_index=True
    )


def _stack(ax: Axes, bars: pd.DataFrame, scale: pd.Series, *, labels: bool = False) -> None:
    """Draw the pieces of each bar, each times `scale`; `labels` writes the shares into them."""
    waits = bars["select_wait_s"].fillna(0)
    pieces = [
        ("select", bars["select_s"] - waits, False),
        ("select", waits, True),
        ("load", bars["load_s"], False),
        ("recompute", bars["recompute_s"], False),
        ("first token", bars["first_token_s"], False),
    ]
    left = bars["ttft_s"] * 0
    for stage, seconds, waiting in pieces:
        width = seconds * scale
        ax.barh(
            bars.index, width, left=left, height=0.72, zorder=3, linewidth=0.5,
            color=WAITING if waiting else STAGES[stage], edgecolor=STAGES[stage] if waiting else "white",
            hatch=HATCH if waiting else None,
        )  # fmt: skip
        left = left + width
    if labels:
        _shares(ax, bars)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_yticks(bars.index, [_name(bar) for bar in bars.to_dict("records")], fontsize=typesize(ax, TEXT))
    ax.tick_params(axis="x", labelsize=typesize(ax, SMALL))
    ax.grid(axis="y", visible=False)


def _shares(ax: Axes, bars: pd.DataFrame) -> None:
    """Write each stage's share into its piece; selection's is one number, its waiting included."""
    for place, bar in bars.iterrows():
        left = 0.0
        for stage in STAGES:
            share = bar[f"{stage.replace(' ', '_')}_share"]
            if share >= SHOWN:
                ax.text(
                    left + share / 2, float(str(place)), f"{share:.0%}", ha="center", va="center", zorder=5,
                    fontsize=typesize(ax, SMALL), color="#222222" if stage != "recompute" else "white",
                    bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "linewidth": 0, "alpha": 0.85}
                    if stage == "select" else None,
                )  # fmt: skip
            left += share


def _totals(ax: Axes, bars: pd.DataFrame) -> None:
    ends = bars["ttft_high_s"].fillna(bars["ttft_s"])
    known = bars.dropna(subset=["ttft_low_s", "ttft_high_s"])
    if len(known):
        around = [known["ttft_s"] - known["ttft_low_s"], known["ttft_high_s"] - known["ttft_s"]]
        ax.errorbar(
            known["ttft_s"], known.index, xerr=[side.clip(lower=0) for side in around], fmt="none",
            ecolor="#222222", elinewidth=0.9, capsize=2, capthick=0.9, zorder=5,
        )  # fmt: skip
    for place, end in enumerate(ends):
        ax.annotate(
            f"{bars['ttft_s'].iloc[place]:#.3g} s", (end, place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=typesize(ax, SMALL), color="#222222",
        )  # fmt: skip
    ax.set_xlim(0, ends.max() * 1.2)


def _name(bar: dict[Any, Any]) -> str:
    return variant_label(bar["method"], bar["variant"])


def _legend() -> list[Artist]:
    handles: list[Artist] = []
    for stage, colour in STAGES.items():
        handles.append(Patch(facecolor=colour, label=LEGEND.get(stage, stage)))
        if stage == "select":
            handles.append(
                Patch(facecolor=WAITING, edgecolor=colour, hatch=HATCH, label="select: waiting for loads")
            )
    return handles


def _caption(lines: pd.DataFrame, run_info: dict[str, Any], frame: pd.DataFrame) -> str:
    rhos = sorted(lines.loc[~lines["method"].isin(REFERENCES), "rho"].unique())
    throttles = sorted(lines.loc[lines["bandwidth"] != "none", "bandwidth"].unique())
    at = f"ρ = {', '.join(f'{rho:g}' for rho in rhos)}. " if rhos else ""
    store = f"Store at {', '.join(throttles)}. " if throttles else ""
    parts = [
        f"{at}{store}n = {spread(lines['n'])} requests a bar; means, so that the parts add up. Whiskers: "
        f"95 % interval of the total, percentile bootstrap over requests. {describe(run_info, frame)}",
        "The paper's Fig. 1 gives shares of the end-to-end time, decoding included; these are of the time to "
        "first token. Full prefill recomputes the whole context.",
    ]
    if lines.loc[lines["select_s"] > 0, "select_wait_s"].isna().any():
        parts.append("Some rows do not tell how long selection waited for loads: there it is not hatched.")
    return "\n".join([*parts, *(f"{WARNING}{text}." for text in cautions(frame, run_info))])
