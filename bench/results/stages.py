"""Where the time to first token goes: the mean of every stage (Fig. 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from bench.metrics.bootstrap import mean_interval, percentile_interval, ratio, resampled_means
from bench.results.points import PARTS, POINT, ok_requests, stream

COLUMNS = [
    *POINT, "variant", "n", "ttft_s", "ttft_low_s", "ttft_high_s", *PARTS, "select_wait_s",
    "select_share", "select_low_share", "select_high_share",
    "select_wait_share", "load_share", "recompute_share", "first_token_share",
]  # fmt: skip


def stages(frame: pd.DataFrame) -> pd.DataFrame:
    """One line for each operating point: means in seconds over its measured requests, and shares.

    Means and not medians, so that `select_s` + `load_s` + `recompute_s` + `first_token_s` = `ttft_s`.
    `select_wait_s` is the part of `select_s` spent waiting for loads, NaN where rows do not tell. A share is
    mean part / mean TTFT. `_low` and `_high` bound the 95 % interval over requests.
    """
    ok = ok_requests(frame).dropna(subset=["ttft_s", *PARTS])
    lines = []
    for key, rows in ok.groupby(POINT):
        assert isinstance(key, tuple)
        lines.append(dict(zip(POINT, key, strict=True)) | _line(rows, stream(str(key[1]))))
    return pd.DataFrame(lines, columns=COLUMNS)


def _line(rows: pd.DataFrame, seed: int) -> dict[str, Any]:
    total = mean_interval(rows["ttft_s"].to_numpy(), seed)
    # a mean over some of the requests would not fit into the mean over all of them
    means = {part: rows[part].mean(skipna=False) for part in [*PARTS, "select_wait_s"]}
    shares = {part.removesuffix("_s") + "_share": mean / total.value for part, mean in means.items()}
    draws = [resampled_means(rows[name].to_numpy(), seed) for name in ("select_s", "ttft_s")]
    select = percentile_interval(shares["select_share"], ratio(draws[0], draws[1]), len(rows))
    return {
        "variant": rows["variant"].iloc[0], "n": len(rows),
        "ttft_s": total.value, "ttft_low_s": total.low, "ttft_high_s": total.high, **means, **shares,
        "select_low_share": select.low, "select_high_share": select.high,
    }  # fmt: skip


def write_csv(lines: pd.DataFrame, path: Path) -> Path:
    """Write a table of a report as CSV; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines.to_csv(path, index=False, float_format="%.6g")
    return path
