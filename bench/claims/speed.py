"""Speed-ups at matched quality (docs/metrics.md, Matched quality)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from bench.claims.measure import Estimate, Form, Lines, Measure
from bench.claims.panel import Panel, Series
from bench.claims.points import Named, Point, Store, TooSmall, at, side_by_side
from bench.claims.store import plain
from bench.metrics.bootstrap import LEVEL, Floats
from bench.results.matched import DRAWS, matched_over, matched_quality, pareto_front
from bench.results.points import FULL_PREFILL

NEVER = (1 - LEVEL) / 2
"""A method that reaches the quality in this share of draws or fewer does not reach it."""


class _Matched(Measure):
    """Scores and TTFT of one or two methods over rho, and of full prefill. At least three ratios."""

    of: Named
    over: Named = Point(method=FULL_PREFILL)
    store: Store = "fastest"

    @property
    def others(self) -> list[Point]:
        """The methods that have a curve of their own."""
        return [self.of] if self.over.method == FULL_PREFILL else [self.of, self.over]

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        full = next(iter(at(panel, Point(method=FULL_PREFILL)).values()))
        found: dict[Hashable, Series] = {}
        for point, keys in zip(self.others, side_by_side(panel, self.others, self.store), strict=True):
            if len(keys) < 3:
                raise TooSmall(f"needs three ρ of {point}; measured: {len(keys)}")
            found |= {(point.method, rho): Series(key, "score") for rho, key in keys.items()}
            found |= {
                (point.method, rho, "ttft_s"): Series(key, "ttft_s", "median") for rho, key in keys.items()
            }
        return found | {FULL_PREFILL: Series(full, "score"), "ttft_s": Series(full, "ttft_s", "median")}

    def frame(self, panels: Sequence[Panel]) -> pd.DataFrame:
        """The rows of these points, as `bench.results.matched` takes them."""
        rows = []
        for panel in panels:
            wanted = self.wanted(panel)
            some = panel.rows[panel.rows["key"].isin([series.key for series in wanted.values()])]
            # one set of requests for all points, as in every other measure
            rows.append(some[some["request"].isin(panel.table(list(wanted.values())).index)])
        return plain(rows).assign(bandwidth="none")


class MatchedSpeedup(_Matched):
    """TTFT of `over` / TTFT of `of`, both where their own Pareto front has full prefill's quality minus 0.01.

    `over` full prefill: a draw of requests that does not reach the quality is worse than any that does.
    Over another method: no interval unless both reach it in 97.5 % of the draws.
    """

    kind: Literal["matched_speedup"]
    form: ClassVar[Form] = "{:.2f}x"
    logarithmic: ClassVar[bool] = True

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        frame = self.frame(panels)
        own = matched_quality(frame[frame["method"].isin([FULL_PREFILL, self.of.method])], DRAWS)
        line = own[own["scope"] == "run"].iloc[0]
        share, infinite = float(line["reached_share"]), float("inf")
        reach = f"{self.of} reaches the quality in {share:.0%} of the draws"
        if not line["reached"]:
            high = -infinite if share <= NEVER else infinite
            return Estimate(-infinite, -infinite, high, "not reached", reach)
        if self.over.method == FULL_PREFILL:
            low, high = (float(line[f"speedup_{side}"]) for side in ("low", "high"))
            return Estimate(
                float(line["speedup"]),
                -infinite if np.isnan(low) else low,
                infinite if np.isnan(high) else high,
                note=reach,
            )
        value, low, high, both = matched_over(frame, self.of.method, self.over.method, DRAWS)
        note = f"both reach the quality in {both:.0%} of the draws"
        if np.isnan(value):
            return Estimate(infinite, -infinite, infinite, f"{self.over} does not reach the quality", note)
        if both < 1 - NEVER:
            low, high = -infinite, infinite
        return Estimate(value, low, high, note=note)


class ReachedShare(_Matched):
    """The share of draws in which `of` and `over` both reach full prefill's quality minus 0.01."""

    kind: Literal["reached_share"]
    form: ClassVar[Form] = "{:.0%}"

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        *_, both = matched_over(self.frame(panels), self.of.method, self.over.method, DRAWS)
        return Estimate(both, both, both, note=f"both in {both:.0%} of the draws")


class EqualTimeDifference(_Matched):
    """Score of `of` less that of `over` at the same TTFT, the mean over the times at which both have one.

    Each side's curve is its Pareto front over rho, of scores and of median TTFTs / full prefill's, both
    averaged over panels, linear between points: the score to be had within that time. The times are 51 equal
    steps between the later first and the later last point of the estimate's two curves; a curve keeps its
    last score, since more time makes nothing worse. Redone in every draw of requests.
    """

    kind: Literal["equal_time_difference"]
    form: ClassVar[Form] = "{:+.3f}"
    sampled: ClassVar[bool] = True

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        full = lines["ttft_s"]
        few = {
            name: (line / full if isinstance(name, tuple) and len(name) == 3 else line)[: DRAWS + 1]
            for name, line in lines.items()
        }
        return {name: line for name, line in few.items() if isinstance(name, tuple)}

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        ours, theirs = (self._curves(pooled, point.method) for point in (self.of, self.over))
        start = max(ours[0][0][0], theirs[0][0][0])
        end = max(ours[0][0][-1], theirs[0][0][-1])
        times = np.linspace(start, end, 51)
        found = [
            float(np.mean(np.interp(times, *mine) - np.interp(times, *other)))
            for mine, other in zip(ours, theirs, strict=True)
        ]
        return np.array(found), f"at {start:.0%} to {end:.0%} of full prefill's TTFT"

    def _curves(self, pooled: Lines, method: str) -> list[tuple[Floats, Floats]]:
        names = [name for name in pooled if isinstance(name, tuple) and name[0] == method]
        rhos = sorted(name[1] for name in names if len(name) == 2)
        quality = np.stack([pooled[method, rho] for rho in rhos], 1).tolist()
        ttft = np.stack([pooled[method, rho, "ttft_s"] for rho in rhos], 1).tolist()
        fronts = [
            pareto_front(list(zip(times, scores, strict=True)))
            for times, scores in zip(ttft, quality, strict=True)
        ]
        return [(np.array([t for t, _ in front]), np.array([q for _, q in front])) for front in fronts]
