"""Every metric of every operating point, scored anew from the predictions that rows keep."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pandas as pd

from bench.metrics import METRICS, all_scores
from bench.results.points import POINT


def all_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    """One line for each point: `n` predictions, and the mean over them of every metric, in [0, 1].

    Rows that were not measured, or have no references, are left out. The dataset's own metric, as in
    `summarise`, is among them.
    """
    known = frame["prediction"].notna() & frame["references"].map(bool)
    ok = frame[(frame["status"] == "ok") & known]
    cached = lru_cache(maxsize=None)(all_scores)  # methods often answer alike
    scores = [cached(p, tuple(r)) for p, r in zip(ok["prediction"], ok["references"], strict=True)]
    table = pd.DataFrame(scores, columns=list(METRICS), index=ok.index)
    grouped = pd.concat([ok[POINT], table], axis=1).groupby(POINT, as_index=False)
    means = grouped.mean()
    means.insert(len(POINT), "n", grouped.size()["size"])
    return means


def write_metrics_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Write `all_metrics(frame)` as CSV; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    all_metrics(frame).to_csv(path, index=False, float_format="%.6g")
    return path
