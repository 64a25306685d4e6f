"""The paper's claim on bandwidth, held against rows (section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.metrics.bootstrap import LEVEL
from bench.results.crossing import ABOVE, BELOW, Crossing

CLAIM = "ProphetKV crosses full prefill at some bandwidth, QCFuse at a lower one or at none"

Verdict = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Judged:
    """The verdict on one model and dataset, and the share of draws of requests in which the claim is true."""

    model: str
    dataset: str
    verdict: Verdict
    share: float
    sentence: str


def judge(found: list[Crossing], full_view: str = "prophetkv", compressed: str = "qcfuse") -> list[Judged]:
    """One verdict for each panel and pair of variants of the two methods.

    The claim is true of a draw where the full-view method crosses (inside the range, or between its highest
    bandwidth and no throttle) and the compressed one crosses at a lower bandwidth or is faster throughout.
    Both use the same requests, so the claim is judged on paired draws: it holds where it is true of the
    estimate and of 97.5 % of the draws or more, does not hold where it is false of as many, and is undecided
    in between and where n = 1.
    """
    return [
        _judged(theirs, ours)
        for theirs in found
        for ours in found
        if (theirs.method, ours.method) == (full_view, compressed)
        and (theirs.model, theirs.dataset) == (ours.model, ours.dataset)
    ]


def _judged(theirs: Crossing, ours: Crossing) -> Judged:
    true = _true(theirs, ours)
    share = float(true[1:].mean()) if theirs.n > 1 else float("nan")
    level = (1 + LEVEL) / 2
    verdict: Verdict = "undecided"
    if true[0] and share >= level:
        verdict = "holds"
    elif not true[0] and share <= 1 - level:
        verdict = "does not hold"
    doubt = f"true in {share:.0%} of the draws of requests" if theirs.n > 1 else "one request tells nothing"
    where = f"{theirs.model}, {theirs.dataset}"
    sentence = (
        f"{where}: the paper's claim (section 4.4) that {CLAIM}: {verdict.upper()} "
        f"({doubt}, n = {theirs.n}). "
        f"{theirs.variant}: {theirs.words}. {ours.variant}: {ours.words}."
    )
    return Judged(theirs.model, theirs.dataset, verdict, share, sentence)


def _true(theirs: Crossing, ours: Crossing) -> NDArray[np.bool_]:
    crosses = (theirs.positions > BELOW) & (theirs.positions < ABOVE)
    if theirs.unthrottled_faster is not None:
        crosses |= (theirs.positions == ABOVE) & theirs.unthrottled_faster
    return crosses & (ours.positions < theirs.positions)
