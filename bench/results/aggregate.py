"""The aggregate over models and datasets, normalised by full prefill (Fig. 11)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bench.metrics.bootstrap import (
    Floats,
    paired,
    percentile_interval,
    ratio,
    resampled_means,
    resampled_medians,
)
from bench.results.points import FULL_PREFILL, PANEL, family, ok_requests, stream

COLUMNS = [
    "family", "method", "params", "variant", "rho", "n_panels", "n_panels_all", "n",
    "quality", "quality_low", "quality_high", "ttft", "ttft_low", "ttft_high",
]  # fmt: skip


class _Normalised(NamedTuple):
    quality: float
    ttft: float
    quality_draws: Floats
    ttft_draws: Floats
    n: int


def aggregate(frame: pd.DataFrame) -> pd.DataFrame:
    """Normalise by full prefill and average: one line for each (metric family, variant, rho).

    In each panel (model, dataset): normalised quality = mean score / mean score of full prefill,
    normalised TTFT = median TTFT / median TTFT of full prefill, both over the requests measured
    under both. `quality` and `ttft` are their means over panels, each panel weighing the same
    ("We normalize both metrics across tasks and models", QCFuse paper, section 4.1.5, which gives
    no formula; this one is ours). The interval draws requests inside each panel and redoes the
    division and the mean.

    `n_panels` counts the panels that enter, `n_panels_all` those of the family; a panel without
    full prefill, or where full prefill scores 0, cannot be normalised and does not enter. `n` is
    the number of requests over the panels.
    """
    ok = ok_requests(frame)
    ok = ok.assign(family=ok["metric"].map(family))
    panels: dict[tuple[str, str, str, float], list[_Normalised]] = {}
    for (_, dataset), panel in ok.groupby(PANEL):
        full = panel[panel["method"] == FULL_PREFILL].drop_duplicates("request").set_index("request")
        if not full["score"].mean() > 0:
            continue
        for _, rows in panel.groupby(["family", "method", "variant", "rho"]):
            head = rows.iloc[0]
            key = (str(head["family"]), str(head["method"]), str(head["variant"]), float(head["rho"]))
            one = _normalise(rows.set_index("request"), full, stream(str(dataset)))
            if one is not None:
                panels.setdefault(key, []).append(one)
    params = ok.drop_duplicates(["method", "variant"]).set_index(["method", "variant"])["params"]
    panels_of = ok.drop_duplicates([*PANEL, "family"]).groupby("family").size().to_dict()
    lines = [
        _line(key, ones) | {"n_panels_all": panels_of[key[0]], "params": params[key[1], key[2]]}
        for key, ones in sorted(panels.items(), key=lambda item: item[0])
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


def _normalise(rows: pd.DataFrame, full: pd.DataFrame, seed: int) -> _Normalised | None:
    score, score_full = paired(rows["score"], full["score"])
    ttft, ttft_full = paired(rows["ttft_s"], full["ttft_s"])
    if not len(score) or not len(ttft) or not score_full.mean() > 0 or not np.median(ttft_full) > 0:
        return None
    return _Normalised(
        quality=float(score.mean() / score_full.mean()),
        ttft=float(np.median(ttft) / np.median(ttft_full)),
        quality_draws=ratio(resampled_means(score, seed), resampled_means(score_full, seed)),
        ttft_draws=ratio(resampled_medians(ttft, seed), resampled_medians(ttft_full, seed)),
        n=len(score),
    )


def _line(key: tuple[str, str, str, float], panels: list[_Normalised]) -> dict[str, Any]:
    n = sum(panel.n for panel in panels)
    # panels of one request each leave nothing to draw from
    enough = n if max(panel.n for panel in panels) > 1 else 1
    quality = percentile_interval(
        float(np.mean([panel.quality for panel in panels])),
        np.mean([panel.quality_draws for panel in panels], axis=0),
        enough,
    )
    ttft = percentile_interval(
        float(np.mean([panel.ttft for panel in panels])),
        np.mean([panel.ttft_draws for panel in panels], axis=0),
        enough,
    )
    return dict(zip(("family", "method", "variant", "rho"), key, strict=True)) | {
        "n_panels": len(panels),
        "n": n,
        "quality": quality.value,
        "quality_low": quality.low,
        "quality_high": quality.high,
        "ttft": ttft.value,
        "ttft_low": ttft.low,
        "ttft_high": ttft.high,
    }
