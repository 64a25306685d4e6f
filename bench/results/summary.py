"""The summary: one line for each operating point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from bench.metrics.bootstrap import NOTHING, Interval, mean_interval, median_interval, paired_ratio
from bench.results.points import (
    CONDUCT,
    FULL_PREFILL,
    PANEL,
    PARTS,
    POINT,
    WAITS,
    Axis,
    ok_requests,
    stream,
    with_variants,
)

MEANS = ("evidence_recall", "needle_recall", "rho_effective", "bytes_before_fusion", "bytes_total", *CONDUCT)
RHO = 0.3
"""The paper's most frequent ratio."""
COUNTS = ("n_failed", "n_skipped", "n_empty", "n_echo")
RATES = ("bandwidth_bytes_per_s", "bandwidth_unit")
COLUMNS = [
    *POINT, *RATES, "variant", "metric", "n", *COUNTS,
    "score", "score_low", "score_high",
    "ttft_s", "ttft_low_s", "ttft_high_s", *PARTS, *WAITS,
    "speedup", "speedup_low", "speedup_high", "n_paired",
    *MEANS,
]  # fmt: skip


def summarise(frame: pd.DataFrame, over: Axis = "rho") -> pd.DataFrame:
    """Summarise rows: one line for each (model, dataset, method, params, rho, bandwidth).

    `score` is the mean over requests, in [0, 1]; `ttft_s` and its parts are medians in seconds;
    `speedup` is median TTFT of full prefill / median TTFT here, over the requests measured under
    both; `evidence_recall` (the answer's tokens), `needle_recall` (the whole needle), `rho_effective`,
    `precision` and bytes are means, `at_limit` and `quotes` the shares of answers that ran into the limit
    of new tokens and that quote the instruction; `bandwidth_bytes_per_s` is the throttle
    and `bandwidth_unit` its 1x, both NaN where nothing was throttled. `_low` and `_high`
    bound the 95 % interval over requests. `n` counts requests measured, `n_failed` rows that failed
    or ran out of memory, `n_empty` and `n_echo` answers that say nothing or repeat their prompt. A
    point without one measured request keeps its line, with NaN. `over` as in `with_variants`.
    """
    counts = with_variants(frame, over=over).assign(
        n_failed=frame["status"].isin(["failed", "oom"]),
        n_skipped=frame["status"] == "skipped",
        n_empty=frame["empty"].eq(True),
        n_echo=frame["echo"].eq(True),
    )
    ok = ok_requests(frame, over=over)
    measured = {key: rows for key, rows in ok.groupby(POINT)}  # noqa: C416 - dict() takes a GroupBy's `keys`
    full = {
        key: rows.drop_duplicates("request").set_index("request")["ttft_s"]
        for key, rows in ok[ok["method"] == FULL_PREFILL].groupby(PANEL)
    }
    lines: list[dict[str, Any]] = []
    for key, rows in counts.groupby(POINT):
        assert isinstance(key, tuple)
        line = dict(zip(POINT, key, strict=True))
        line |= {"variant": rows["variant"].iloc[0], "metric": rows["metric"].iloc[0]}
        line |= {name: rows[name].median() for name in RATES}
        line |= {name: int(rows[name].sum()) for name in COUNTS}
        line |= _measures(measured.get(key, ok.iloc[:0]), full.get(key[:2]), stream(str(key[1])))
        lines.append(line)
    return pd.DataFrame(lines, columns=COLUMNS)


def headline_rho(summary: pd.DataFrame) -> float:
    """The ρ of a table that has room for one: `RHO` where the lines have it, else their middle one."""
    swept = summary.loc[(summary["rho"] > 0) & (summary["rho"] < 1), "rho"]
    rhos = sorted(float(rho) for rho in swept.unique())
    return RHO if RHO in rhos or not rhos else rhos[(len(rhos) - 1) // 2]


def write_summary_csv(frame: pd.DataFrame, path: Path, summary: pd.DataFrame | None = None) -> Path:
    """Write `summarise(frame)`, or the `summary` already made from it, as CSV; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = summarise(frame) if summary is None else summary
    lines.to_csv(path, index=False, float_format="%.6g")
    return path


def _measures(rows: pd.DataFrame, full: pd.Series | None, seed: int) -> dict[str, Any]:
    score = mean_interval(rows["score"].to_numpy(), seed)
    ttft = median_interval(rows["ttft_s"].to_numpy(), seed)
    speedup = NOTHING if full is None else paired_ratio(full, rows.set_index("request")["ttft_s"], seed)
    line: dict[str, Any] = {"n": len(rows), "n_paired": speedup.n}
    line |= _bounds("score", "", score) | _bounds("ttft", "_s", ttft) | _bounds("speedup", "", speedup)
    line |= {part: rows[part].median() for part in [*PARTS, *WAITS]}
    line |= {name: rows[name].mean() for name in MEANS}
    return line


def _bounds(name: str, unit: str, interval: Interval) -> dict[str, float]:
    return {
        f"{name}{unit}": interval.value,
        f"{name}_low{unit}": interval.low,
        f"{name}_high{unit}": interval.high,
    }
