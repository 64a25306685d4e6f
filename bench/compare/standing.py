"""Where a method stands among the others: rank, Pareto front, wins and losses, loads before fusion."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from bench.compare.beside import Beside
from bench.figures.style import DIRECT_REUSE, REFERENCES, order
from bench.metrics.bootstrap import Interval, paired_difference, ratio_of_medians
from bench.results.common import common
from bench.results.points import COLD_PREFILL, FULL_PREFILL, PREFILLS, ok_requests, stream
from bench.results.variants import pooled

TINY = 1e-9
"""Means of the same scores in another order differ by less."""


@dataclass(frozen=True)
class Rank:
    """Place by mean score, datasets weighing the same, among the methods measured at one rho."""

    model: str
    rho: float
    score: Interval
    place: int
    among: int


@dataclass(frozen=True)
class Duel:
    """The method beside another one on one dataset, over the same requests.

    `score`: its mean score minus the other's; `speed`: the other's median TTFT over its own (above 1 it is
    faster), each over full prefill's in its own run, which its interval draws anew as well.
    """

    model: str
    dataset: str
    rho: float
    other: str
    score: Interval
    speed: Interval

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "level": what the interval of the scores says; "unknown" without one."""
        if math.isnan(self.score.low):
            return "unknown"
        return "better" if self.score.low > 0 else "worse" if self.score.high < 0 else "level"


@dataclass(frozen=True)
class Front:
    """One of its points on a dataset: its score, speed-up, and the point that beats it on both, if any."""

    model: str
    dataset: str
    rho: float
    score: float
    speedup: float
    behind: str | None


@dataclass(frozen=True)
class Load:
    """Bytes of cached keys and values read before fusion (mean over requests), and of the whole cache."""

    model: str
    dataset: str
    method: str
    before_fusion: float
    share: float


@dataclass(frozen=True)
class Standing:
    """All of it, for one method. `left_out`: what was measured on too few requests to be compared with."""

    method: str
    ranks: list[Rank]
    fronts: list[Front]
    duels: list[Duel]
    loads: list[Load]
    left_out: list[str]
    failed: int
    """Rows of the method that were not measured; it is judged on the others."""


def standing(beside: Beside) -> Standing:
    """Compare `beside.method` with every other method of the frame, always on the same requests.

    Rank and front count the requests that everything compared was measured on, a duel those of its two.
    """
    rows = beside.run.frame[beside.run.frame["method"] == beside.method]
    ok, mine = ok_requests(beside.run.frame), beside.method
    ranks, left_out = _ranks(ok, mine)
    fronts, more = _fronts(ok, mine)
    missing = int((rows["status"] != "ok").sum())
    lost = list(dict.fromkeys([*left_out, *more]))
    return Standing(mine, ranks, fronts, _duels(ok, beside), _loads(ok, mine), lost, missing)


def _ranks(ok: pd.DataFrame, mine: str) -> tuple[list[Rank], list[str]]:
    found: list[Rank] = []
    left_out: list[str] = []
    for (model, rho), rows in ok[~ok["method"].isin(REFERENCES)].groupby(["model", "rho"]):
        own = rows.loc[rows["method"] == mine, "variant"].unique()
        if not len(own):
            continue
        wide, short = common(rows, ["variant"], "score")
        left_out += short
        scores = {str(variant): pooled(wide[variant]) for variant in wide if len(wide)}
        for variant in filter(scores.__contains__, own):
            above = sum(score.value > scores[variant].value + TINY for score in scores.values())
            found.append(Rank(str(model), float(str(rho)), scores[variant], above + 1, len(scores)))
    return found, left_out


def _fronts(ok: pd.DataFrame, mine: str) -> tuple[list[Front], list[str]]:
    found: list[Front] = []
    left_out: list[str] = []
    for (model, dataset), rows in ok[ok["method"] != COLD_PREFILL].groupby(["model", "dataset"]):
        wide, short = common(rows, ["method", "variant", "rho"], "score")
        left_out += short
        times = common(rows, ["method", "variant", "rho"], "ttft_s")[0].reindex(wide.index)
        points = {key: (float(wide[key].mean()), float(times[key].median())) for key in wide.columns}
        full = next((ttft for key, (_, ttft) in points.items() if key[0] == FULL_PREFILL), float("nan"))
        for key, (score, ttft) in points.items():
            if key[0] != mine:
                continue
            beating = [other for other, point in points.items() if _beats(point, (score, ttft))]
            best = max(beating, key=lambda other: points[other][0], default=None)
            behind = None if best is None else f"{best[1]} at rho {best[2]:g}"
            found.append(Front(str(model), str(dataset), float(key[2]), score, full / ttft, behind))
    return found, left_out


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether a (score, TTFT) is no worse on both and better on one."""
    no_worse = one[0] >= other[0] - TINY and one[1] <= other[1]
    return no_worse and (one[0] > other[0] + TINY or one[1] < other[1])


def _duels(ok: pd.DataFrame, beside: Beside) -> list[Duel]:
    found, mine = [], beside.method
    for (model, dataset), rows in ok.groupby(["model", "dataset"]):
        seed = stream(str(dataset))
        if (str(model), str(dataset)) not in beside.drift:
            continue
        scale = beside.drift[str(model), str(dataset)].value
        before, now = beside.full[str(model), str(dataset)]
        for rho, own in rows[rows["method"] == mine].groupby("rho"):
            here = own.set_index("request")
            rest = rows[rows["method"] != mine]
            for other in order(rest["method"].unique()):
                some = rest[rest["method"] == other]
                if other not in REFERENCES:
                    some = some[some["rho"] == rho]
                for variant, theirs in some.groupby("variant"):
                    there = theirs.set_index("request")
                    found.append(
                        Duel(
                            str(model), str(dataset), float(str(rho)), str(variant),
                            paired_difference(here["score"], there["score"], seed),
                            ratio_of_medians(
                                [there["ttft_s"], now], [here["ttft_s"] / scale, before], seed
                            ),
                        )
                    )  # fmt: skip
    return found


def _loads(ok: pd.DataFrame, mine: str) -> list[Load]:
    """The whole cache of a request is what direct reuse reads of it; without that, the most any reads."""
    found = []
    for (model, dataset), rows in ok[~ok["method"].isin(PREFILLS)].groupby(["model", "dataset"]):
        reuse = rows[rows["method"] == DIRECT_REUSE]
        whole = (reuse if len(reuse) else rows).groupby("request")["bytes_total"].max()
        shares = rows["bytes_before_fusion"] / rows["request"].map(whole)
        means = rows.assign(share=shares).groupby("method")[["bytes_before_fusion", "share"]].mean()
        for method in sorted(order(means.index), key=lambda name: name != mine):
            size, share = means["bytes_before_fusion"][method], means["share"][method]
            found.append(Load(str(model), str(dataset), method, float(size), float(share)))
    return found
