"""Where a method stands among the others: rank, Pareto front, wins and losses, loads before fusion."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from bench.compare.beside import Beside
from bench.figures.style import REFERENCES, order
from bench.metrics.bootstrap import Interval, paired_difference, paired_ratio
from bench.results.points import FULL_PREFILL, ok_requests, stream
from bench.results.variants import pooled


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
    faster).
    """

    model: str
    dataset: str
    rho: float
    other: str
    score: Interval
    speed: Interval

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "level": what the interval of the scores says."""
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
    """All of it, for one method."""

    method: str
    ranks: list[Rank]
    fronts: list[Front]
    duels: list[Duel]
    loads: list[Load]


def standing(beside: Beside) -> Standing:
    """Compare `beside.method` with every other method of the frame. Requests are paired by their ids."""
    ok = ok_requests(beside.run.frame)
    mine = beside.method
    return Standing(mine, _ranks(ok, mine), _fronts(ok, mine), _duels(ok, mine), _loads(ok, mine))


def _ranks(ok: pd.DataFrame, mine: str) -> list[Rank]:
    found = []
    for (model, rho), rows in ok[~ok["method"].isin(REFERENCES)].groupby(["model", "rho"]):
        scores = {
            variant: pooled(some.set_index(["dataset", "request"])["score"])
            for variant, some in rows.groupby("variant")
        }
        for variant in rows.loc[rows["method"] == mine, "variant"].unique():
            above = sum(score.value > scores[variant].value for score in scores.values())
            found.append(Rank(str(model), float(str(rho)), scores[variant], above + 1, len(scores)))
    return found


def _fronts(ok: pd.DataFrame, mine: str) -> list[Front]:
    found = []
    for (model, dataset), rows in ok.groupby(["model", "dataset"]):
        points = rows.groupby(["method", "variant", "rho"], as_index=False)[["score", "ttft_s"]].agg(
            {"score": "mean", "ttft_s": "median"}
        )
        full = points.loc[points["method"] == FULL_PREFILL, "ttft_s"].min()
        for own in points[points["method"] == mine].to_dict("records"):
            others = points[points["method"] != mine]
            no_worse = (others["score"] >= own["score"]) & (others["ttft_s"] <= own["ttft_s"])
            beating = others[
                no_worse & ((others["score"] > own["score"]) | (others["ttft_s"] < own["ttft_s"]))
            ]
            best = beating.sort_values("score", ascending=False).to_dict("records")
            behind = f"{best[0]['variant']} at rho {best[0]['rho']:g}" if best else None
            speedup = float(full / own["ttft_s"])
            found.append(Front(str(model), str(dataset), own["rho"], own["score"], speedup, behind))
    return found


def _duels(ok: pd.DataFrame, mine: str) -> list[Duel]:
    found = []
    for (model, dataset), rows in ok.groupby(["model", "dataset"]):
        seed = stream(str(dataset))
        for rho, own in rows[rows["method"] == mine].groupby("rho"):
            here = own.drop_duplicates("request").set_index("request")
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
                            paired_ratio(there["ttft_s"], here["ttft_s"], seed),
                        )
                    )  # fmt: skip
    return found


def _loads(ok: pd.DataFrame, mine: str) -> list[Load]:
    found = []
    for (model, dataset), rows in ok.groupby(["model", "dataset"]):
        whole = rows.loc[rows["method"] != FULL_PREFILL, "bytes_total"].max()
        means = rows.groupby("method")["bytes_before_fusion"].mean()
        for method in [mine, *(m for m in order(means.index) if m not in (mine, FULL_PREFILL))]:
            found.append(
                Load(str(model), str(dataset), method, float(means[method]), float(means[method] / whole))
            )
    return found
