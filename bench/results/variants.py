"""Does a choice that papers leave open change who wins? Variants of methods, pooled over datasets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.figures.style import REFERENCES, order
from bench.metrics.bootstrap import Interval, percentile_interval, resampled_means
from bench.results.common import common
from bench.results.points import PAPER, ok_requests, stream

CONTROLS = ("random_tokens", "first_tokens", "last_tokens", "oracle_deviation", "gold_evidence")
UNKNOWN = (float("nan"), float("nan"))

Which = tuple[str, str]
"""A method and its parameters as JSON text."""


@dataclass(frozen=True)
class VariantLine:
    """A method with its parameters: mean score over requests, every dataset weighing the same.

    `change`: score minus that of the same method by the paper's rule, over the same requests; None for the
    paper's rule itself. `overtakes`: methods (by the paper's rule) that it stands on the other side of than
    the paper's rule does; each with the difference of scores, this variant's minus that method's.
    """

    method: str
    params: str
    variant: str
    score: Interval
    change: Interval | None
    recall: float
    """Of the answer's tokens."""
    needle: float
    """Of the whole needle, NaN where the rows do not tell."""
    overtakes: Mapping[str, Interval]


def variant_lines(frame: pd.DataFrame, run_info: Mapping[str, Any]) -> tuple[list[VariantLine], list[str]]:
    """A line for each method and its parameters, in the order of every legend, the paper's rule first.

    `frame` holds one model and one rho. All lines are of the same requests; the second value says, a line
    each, what was left out for lack of them (`bench.results.common`).
    """
    ok = ok_requests(frame)
    wide, left_out = common(ok, ["method", "params"], "score")
    scores = {(str(key[0]), str(key[1])): wide[key] for key in wide.columns}
    recalls = ok.set_index(["method", "params", "dataset", "request"]).sort_index()
    names = _names(run_info)
    lines = []
    for method in order(key[0] for key in scores):
        own = [key for key in scores if key[0] == method]
        for key in sorted(own, key=lambda k: (k[1] != PAPER, list(names).index(k) if k in names else 0)):
            paper = (method, PAPER)
            changed = key != paper and paper in scores
            lines.append(
                VariantLine(
                    *key, names.get(key, key[1]), pooled(scores[key]),
                    pooled(scores[key] - scores[paper]) if changed else None,
                    pooled(recalls["evidence_recall"][key].reindex(wide.index)).value,
                    pooled(recalls["needle_recall"][key].reindex(wide.index)).value,
                    _overtaken(scores, key) if changed else {},
                )
            )  # fmt: skip
    return lines, left_out


def pooled(values: pd.Series) -> Interval:
    """The mean over datasets of the mean over requests, with its 95 % interval.

    `values` are indexed by (dataset, request).
    """
    groups = [(str(dataset), some.to_numpy(dtype=np.float64)) for dataset, some in values.groupby(level=0)]
    resampled = np.mean([resampled_means(some, stream(dataset)) for dataset, some in groups], axis=0)
    value = float(np.mean([some.mean() for _, some in groups]))
    # one request of a dataset tells nothing of how requests differ
    enough = all(len(some) > 1 for _, some in groups)
    return (
        percentile_interval(value, resampled, len(values))
        if enough
        else Interval(value, *UNKNOWN, len(values))
    )


def _names(run_info: Mapping[str, Any]) -> dict[Which, str]:
    """What the run's configuration called a variant: the text in brackets; in its order."""
    specs = run_info.get("sweep", {}).get("methods", [])
    found = {}
    for spec, method in zip(specs, run_info.get("methods", []), strict=False):
        _, _, bracket = str(spec).partition("[")
        key = (str(method["name"]), json.dumps(method["params"], sort_keys=True))
        found[key] = bracket.rstrip("]")
    return found


def _overtaken(scores: Mapping[Which, pd.Series], key: Which) -> dict[str, Interval]:
    """The methods whose order to this one the variant turns round."""
    paper = scores[key[0], PAPER]
    found = {}
    for other, params in scores:
        if other == key[0] or params != PAPER or other in (*REFERENCES, *CONTROLS):
            continue
        before, after = pooled(paper - scores[other, PAPER]), pooled(scores[key] - scores[other, PAPER])
        # means of the same scores in another order differ in their last bits
        if round(before.value, 9) * round(after.value, 9) < 0:
            found[str(other)] = after
    return found
