"""Matched quality: how much faster a method is where it is as good as full prefill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.metrics.bootstrap import LEVEL, Floats, draws
from bench.results.points import FULL_PREFILL, PANEL, PREFILLS, ok_requests, stream

TOLERANCE = 0.01
"""One point of quality on a scale of 100."""
DRAWS = 1_000
COVERAGE = 0.5
"""A rho measured on a smaller share of full prefill's requests does not enter."""

COLUMNS = [
    "scope", "model", "dataset", "method", "variant", "n_panels", "n", "full_quality", "best_quality",
    "reached", "speedup", "speedup_low", "speedup_high", "reached_share",
]  # fmt: skip

Point = tuple[float, float]
"""(TTFT, mean quality) of one operating point."""


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """The points no other beats (quality up, TTFT down), by rising TTFT and rising quality."""
    front: list[Point] = []
    for ttft, quality in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or quality > front[-1][1]:
            front.append((ttft, quality))
    return front


def ttft_at(points: Sequence[Point], quality: float) -> float | None:
    """The TTFT at which the Pareto front of `points` first has `quality`; None where it never has.

    Linear between neighbouring points of the front; the fastest point's own TTFT where that
    point is good enough already. There is no extrapolation.
    """
    before: Point | None = None
    for ttft, reached in pareto_front(points):
        if reached >= quality - 1e-9:  # 0.8 - 0.01 is not 0.79 in binary
            if before is None or reached <= quality:
                return ttft
            share = (quality - before[1]) / (reached - before[1])
            return before[0] + share * (ttft - before[0])
        before = (ttft, reached)
    return None


@dataclass(frozen=True)
class _Panel:
    """A variant on one model and dataset. Line 0 is the estimate, line i the i-th draw of requests."""

    rhos: list[float]
    quality: Floats
    ttft: Floats
    """Median TTFT / full prefill's median TTFT: shape (1 + draws, rhos)."""
    full: Floats
    n: int


def matched_quality(frame: pd.DataFrame, count: int = DRAWS) -> pd.DataFrame:
    """The speed-up of every method over full prefill at matched quality, with its 95 % interval.

    `speedup` = median TTFT of full prefill / TTFT at the point of the method's own Pareto front
    (over rho) whose mean quality is full prefill's minus `TOLERANCE`. `scope` is "dataset" (one
    model and dataset), "model" (all its datasets) or "run" (everything). Over several panels the
    points are means over panels of mean score and of TTFT normalised by full prefill, at the rhos
    every panel has.

    The interval redoes all of it for each of `count` draws of requests, paired by request id. A
    draw that does not reach the quality counts as worse than any that does: `speedup_low` is NaN
    where 2.5 % of the draws or more do not reach it. `reached_share` is the share that does.
    `n` counts the requests measured under full prefill and every rho that enters.
    """
    ok = ok_requests(frame)
    full = ok[ok["method"] == FULL_PREFILL]
    lines: list[dict[str, Any]] = []
    for (method, variant), rows in ok[~ok["method"].isin(PREFILLS)].groupby(["method", "variant"]):
        panels: dict[tuple[str, str], _Panel] = {}
        for (model, dataset), points in rows.groupby(PANEL):
            reference = full[(full["model"] == model) & (full["dataset"] == dataset)]
            panel = _panel(points, reference, stream(str(dataset)), count)
            if panel is not None:
                panels[str(model), str(dataset)] = panel
        named = {"method": method, "variant": variant}
        lines += [named | line for line in _scopes(panels)]
    return pd.DataFrame(lines, columns=COLUMNS)


def matched_over(
    frame: pd.DataFrame, variant: str, baseline: str, count: int = DRAWS
) -> tuple[float, float, float, float]:
    """How much faster `variant` is than `baseline`, both at matched quality, over the whole run.

    TTFT of `baseline` / TTFT of `variant`, each at the point of its own front where it has full
    prefill's quality (QCFuse paper, section 4.2.3: "1.5x over ProphetKV"). Returns the estimate,
    the 95 % interval and the share of draws in which both reach it, over the panels both have.
    All NaN and a share of 0 where there is no such panel; the estimate is NaN where one of the
    two does not reach it, the interval counts only the draws in which both do.
    """
    ok = ok_requests(frame)
    sides: tuple[list[_Panel], list[_Panel]] = ([], [])
    for (_, dataset), rows in ok.groupby(PANEL):
        pair = [rows[rows["variant"] == name] for name in (variant, baseline)]
        common = set(pair[0]["request"]) & set(pair[1]["request"])
        reference = rows[(rows["method"] == FULL_PREFILL) & rows["request"].isin(common)]
        made = [_panel(points, reference, stream(str(dataset)), count) for points in pair]
        for side, panel in zip(sides, made, strict=True):
            if panel is not None and None not in made:
                side.append(panel)
    if not sides[0]:
        return float("nan"), float("nan"), float("nan"), 0.0
    ours, theirs = (_ttft_lines(*_pool(side)[1:]) for side in sides)
    ratios = theirs / ours
    reached = ratios[1:][~np.isnan(ratios[1:])]
    low, high = np.quantile(reached, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(reached) else (np.nan, np.nan)
    return float(ratios[0]), float(low), float(high), len(reached) / count


def _panel(points: pd.DataFrame, full: pd.DataFrame, seed: int, count: int) -> _Panel | None:
    table = points.dropna(subset=["score", "ttft_s"]).pivot(
        index="request", columns="rho", values=["score", "ttft_s"]
    )
    reference = full.dropna(subset=["score", "ttft_s"]).drop_duplicates("request").set_index("request")
    table = table[table.index.isin(reference.index)].sort_index()
    covered = table.notna().sum() >= max(1.0, COVERAGE * len(reference))
    table = table.loc[:, covered].dropna()
    if table.empty:
        return None
    reference = reference.loc[table.index]
    n = len(table)
    lines = np.vstack([np.arange(n)[None, :], draws(n, seed, count)])
    full_ttft = np.median(reference["ttft_s"].to_numpy()[lines], axis=1)
    return _Panel(
        rhos=[float(rho) for rho in table["score"].columns],
        quality=np.stack([table["score", rho].to_numpy()[lines].mean(1) for rho in table["score"]], 1),
        ttft=np.stack([np.median(table["ttft_s", rho].to_numpy()[lines], 1) for rho in table["ttft_s"]], 1)
        / full_ttft[:, None],
        full=reference["score"].to_numpy()[lines].mean(axis=1),
        n=n,
    )


def _scopes(panels: dict[tuple[str, str], _Panel]) -> list[dict[str, Any]]:
    if not panels:
        return []
    lines = [
        {"scope": "dataset", "model": model, "dataset": dataset} | _line([panel])
        for (model, dataset), panel in panels.items()
    ]
    for model in sorted({model for model, _ in panels}):
        of_model = [panel for key, panel in panels.items() if key[0] == model]
        lines.append({"scope": "model", "model": model, "dataset": ""} | _line(of_model))
    return [*lines, {"scope": "run", "model": "", "dataset": ""} | _line(list(panels.values()))]


def _pool(panels: list[_Panel]) -> tuple[list[float], Floats, Floats, Floats]:
    rhos = sorted(set.intersection(*(set(panel.rhos) for panel in panels)))
    where = [[panel.rhos.index(rho) for rho in rhos] for panel in panels]
    quality = np.mean([panel.quality[:, at] for panel, at in zip(panels, where, strict=True)], axis=0)
    ttft = np.mean([panel.ttft[:, at] for panel, at in zip(panels, where, strict=True)], axis=0)
    return rhos, quality, ttft, np.mean([panel.full for panel in panels], axis=0)


def _ttft_lines(quality: Floats, ttft: Floats, full: Floats) -> Floats:
    """Normalised TTFT at matched quality for the estimate and each draw; NaN where not reached."""
    found = [
        ttft_at(list(zip(times, scores, strict=True)), target - TOLERANCE)
        for times, scores, target in zip(ttft.tolist(), quality.tolist(), full.tolist(), strict=True)
    ]
    return np.array([np.nan if one is None else one for one in found], dtype=np.float64)


def _line(panels: list[_Panel]) -> dict[str, Any]:
    rhos, quality, ttft, full = _pool(panels)
    speedups = 1 / _ttft_lines(quality, ttft, full)
    resampled = np.nan_to_num(speedups[1:], nan=-np.inf)
    tail = (1 - LEVEL) / 2
    # order statistics, not interpolated: a draw that does not reach is no number to average with
    low = np.quantile(resampled, tail, method="lower")
    high = np.quantile(resampled, 1 - tail, method="higher")
    n = sum(panel.n for panel in panels)
    known = max(panel.n for panel in panels) > 1 and not np.isnan(speedups[0])
    return {
        "n_panels": len(panels),
        "n": n,
        "full_quality": full[0],
        "best_quality": quality[0].max() if rhos else np.nan,
        "reached": not np.isnan(speedups[0]),
        "speedup": speedups[0],
        "speedup_low": low if known and np.isfinite(low) else np.nan,
        "speedup_high": high if known and np.isfinite(high) else np.nan,
        "reached_share": float(np.isfinite(resampled).mean()),
    }
