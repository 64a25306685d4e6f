"""QCFuse against each baseline at its best foot: the best of all its parameter sets that were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.metrics.bootstrap import LEVEL, Floats, Interval, resampled_means
from bench.results.common import common
from bench.results.points import PAPER, ok_requests, stream

OF = "qcfuse"
BASELINES = ("cacheblend", "epic", "fusionrag", "prophetkv")
"""The published methods that the paper compares with."""


@dataclass(frozen=True)
class BestFoot:
    """Mean score of QCFuse (the paper's rule) minus that of the best parameter set of one baseline.

    `gap` is over all datasets of the model, each weighing the same, at one nominal ρ; its interval is
    simultaneous over the `sets` parameter sets compared. `rule` is the same with the baseline by the paper's
    rule, None where that was not measured. `best` names the parameters of the best set, "" for that rule.
    """

    model: str
    rho: float
    baseline: str
    best: str
    sets: int
    gap: Interval
    rule: Interval | None
    datasets: int


def best_feet(frame: pd.DataFrame) -> tuple[list[BestFoot], list[str]]:
    """A line for each model, ρ and baseline; none where no baseline has several parameter sets.

    All lines of a model and ρ are of the same requests; the second value says, a line each, what was left out
    for lack of them (`bench.results.common`). The best set is picked after the fact, so that an interval of
    its own would be too narrow, and that of the largest difference biased: every draw of requests takes the
    largest deviation of any of the baseline's differences from its estimate, and the interval is the least
    difference -/+ the 95 % quantile of these. It holds whichever set is the best.
    """
    ok = ok_requests(frame[frame["method"].isin((OF, *BASELINES))])
    ok = ok[(ok["method"] != OF) | (ok["params"] == PAPER)]
    found: list[BestFoot] = []
    left_out: list[str] = []
    for (model, rho), rows in ok.groupby(["model", "rho"]):
        several = rows[rows["method"] != OF].groupby("method")["params"].nunique()
        if OF not in set(rows["method"]) or not (several > 1).any():
            continue
        wide, short = common(rows, ["method", "params"], "score")
        left_out += [f"{model}, ρ {rho:g}: {text}" for text in short]
        if wide.empty or (OF, PAPER) not in wide.columns:
            continue
        for baseline in BASELINES:
            gaps = {str(key[1]): wide[OF, PAPER] - wide[key] for key in wide.columns if key[0] == baseline}
            if gaps:
                found.append(_foot(str(model), float(str(rho)), baseline, gaps))
    return found, left_out


def _foot(model: str, rho: float, baseline: str, gaps: Mapping[str, pd.Series]) -> BestFoot:
    first = next(iter(gaps.values()))
    groups = first.groupby(level="dataset").size()
    lines = {params: _lines(gap) for params, gap in gaps.items()}
    best = min(lines, key=lambda params: float(lines[params][0]))
    known = len(first) if groups.min() > 1 else 1
    rule = _interval(lines[PAPER], [lines[PAPER]], known) if PAPER in lines else None
    gap = _interval(lines[best], list(lines.values()), known)
    return BestFoot(model, rho, baseline, name_of(best), len(lines), gap, rule, len(groups))


def name_of(params: str) -> str:
    """ "tokens=max,heads=max"; "" for the paper's rule."""
    return ",".join(f"{key}={value}" for key, value in json.loads(params).items())


def _lines(gap: pd.Series) -> Floats:
    """The difference, then that of each draw: the mean over datasets of the mean over requests."""
    parts = [
        np.concatenate(
            [[some.mean()], resampled_means(some.to_numpy(dtype=np.float64), stream(str(dataset)))]
        )
        for dataset, some in gap.groupby(level="dataset")
    ]
    found: Floats = np.mean(parts, axis=0)
    return found


def _interval(line: Floats, among: list[Floats], n: int) -> Interval:
    value = float(line[0])
    if n < 2:  # one request of a dataset tells nothing of how requests differ
        return Interval(value, float("nan"), float("nan"), n)
    deviation = np.max([np.abs(one[1:] - one[0]) for one in among], axis=0)
    reach = float(np.quantile(deviation, LEVEL))
    return Interval(value, value - reach, value + reach, n)
