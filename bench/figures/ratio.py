"""Quality, or recall of the evidence, over the effective recomputation ratio."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.figures.fig10 import closing
from bench.figures.panels import (
    DASHES,
    TEXT,
    build,
    caveats,
    describe,
    draw_panel,
    look_of,
    named,
    save,
    say,
    typesize,
)
from bench.figures.style import REFERENCES, theme
from bench.results.effective import differs
from bench.results.points import COLD_PREFILL, by_paper, family, spread

Kind = Literal["ratio", "recall"]

NAMES = {"ratio": "fig10_ratio", "recall": "fig10_recall"}
LABELS = {"ratio": "Quality, mean score", "recall": "Recall of the evidence"}
X_LABEL = "Effective recomputation ratio (rows recomputed, mean over layers / N)"
TOKENS, NEEDLE = "answer tokens", "whole needle"
DRAWS = {"evidence_recall": TOKENS, "needle_recall": NEEDLE}


def plot(frame: pd.DataFrame, run_info: dict[str, Any], out_dir: Path, summary: pd.DataFrame) -> list[Path]:
    """Write fig10_ratio and fig10_recall (png, svg) into `out_dir`, each where its rows tell enough for it.

    `summary` is `summarise(frame)`; returns the paths.
    """
    known = summary[~summary["method"].isin(REFERENCES)].dropna(subset=["rho_effective"])
    kinds: list[Kind] = []
    if known["score"].notna().any():
        kinds.append("ratio")
    if known[list(DRAWS)].notna().any(axis=None):
        kinds.append("recall")
    paths = []
    for kind in kinds:
        with mpl.rc_context():
            theme()
            paths += save(draw(frame, run_info, summary, kind), out_dir, NAMES[kind])
    return paths


def draw(
    frame: pd.DataFrame, run_info: dict[str, Any], summary: pd.DataFrame, kind: Kind = "ratio"
) -> Figure:
    """Draw the grid: a row a model, a column a dataset; x effective ratio, y mean score or mean recall.

    A point whose effective ratio is not the nominal one says the nominal one. Recall comes twice: of the
    answer's tokens (`evidence_recall`) and of the whole needle (`needle_recall`).
    """
    points = named(summary[summary["method"] != COLD_PREFILL], run_info)
    points["x"], points["x_low"], points["x_high"] = points["rho_effective"], float("nan"), float("nan")
    points["tag"] = [
        f"{asked:g}" if differs(asked, done) and not thin else ""
        for asked, done, thin in zip(points["rho"], points["rho_effective"], points["thin"], strict=True)
    ]
    shown = _scores(points) if kind == "ratio" else _recalls(points)
    models, datasets = list(frame["model"].unique()), list(frame["dataset"].unique())
    if kind == "recall":  # not every dataset knows its evidence
        datasets = [name for name in datasets if shown.loc[shown["dataset"] == name, "y"].notna().any()]
    about = [_about(points, kind, frame, run_info), *caveats(datasets, run_info)]
    caption = "\n".join([*about, *closing(points, frame, run_info)])
    figure, axes = build(
        (len(models), len(datasets)), shown, caption, X_LABEL,
        LABELS[kind], legends=None if kind == "ratio" else (_methods(shown), _draws(shown)),
    )  # fmt: skip
    look = look_of(points)
    for row, model in enumerate(models):
        for column, dataset in enumerate(datasets):
            ax = axes[row, column]
            panel = shown[(shown["model"] == model) & (shown["dataset"] == dataset)]
            swept = panel[~panel["method"].isin(REFERENCES)].dropna(subset=["x", "y"])
            if swept.empty:
                say(ax, "not run, or its ratio not recorded")
                ax.set(xticks=[], yticks=[])
                continue
            draw_panel(ax, panel, look)
            # full prefill stands at 1, where nothing else is: its line says enough
            ax.set_xlim(-0.02, swept["x"].max() * 1.15)
            metric = family(str(panel["metric"].iloc[0])) if kind == "ratio" else "recall"
            title = f"{dataset} ({metric}), n = {spread(panel['n'])}"
            ax.set_title(
                title if len(models) == 1 else f"{model.rsplit('/', 1)[-1]}\n{title}",
                fontsize=typesize(ax, TEXT), pad=4,
            )  # fmt: skip
    return figure


def _scores(points: pd.DataFrame) -> pd.DataFrame:
    return points.rename(columns={"score": "y", "score_low": "y_low", "score_high": "y_high"})


def _recalls(points: pd.DataFrame) -> pd.DataFrame:
    """A line for each point and recall, by the paper's rule alone: eight curves twice are enough."""
    rules = points[by_paper(points) & ~points["method"].isin(REFERENCES)]
    parts = [
        rules.assign(y=rules[column], y_low=float("nan"), y_high=float("nan"), variant=name, thin=False)
        for column, name in DRAWS.items()
    ]
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found.assign(tag="")


def _methods(points: pd.DataFrame) -> Sequence[Artist]:
    return [
        Line2D(
            [], [], color=style.colour, marker=style.marker, markersize=5, linewidth=1.0, label=style.label
        )
        for style in look_of(points).values()
    ]


def _draws(points: pd.DataFrame) -> Sequence[Artist]:
    known = set(points.loc[points["y"].notna(), "variant"])
    return [
        Line2D([], [], color="#666666", linewidth=1.0, linestyle=dash, label=name)
        for name, dash in zip((TOKENS, NEEDLE), DASHES, strict=False)
        if name in known
    ]


def _about(points: pd.DataFrame, kind: Kind, frame: pd.DataFrame, run_info: dict[str, Any]) -> str:
    n = f"n = {spread(points['n'])} requests a point."
    if kind == "recall":
        what = (
            f"Share of the evidence's positions recomputed at the last layer. {TOKENS}: the answer's own; "
            f"{NEEDLE}: all of what tells it. A random draw has the ratio itself."
        )
        return f"{n} {what} {describe(run_info, frame)}"
    what = (
        "Bars: 95 % interval, percentile bootstrap over requests. Number at a point: the nominal ρ, "
        "where that is another. Dashed, across: full prefill (ratio 1, off the axis) and direct reuse."
    )
    return f"{n} {what} {describe(run_info, frame)}"
