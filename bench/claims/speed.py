"""Speed-ups at matched quality (docs/metrics.md, Matched quality)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from bench.claims.measure import Estimate, Form, Measure
from bench.claims.panel import Panel, Series
from bench.claims.points import Named, Point, TooSmall, at, side_by_side
from bench.claims.store import plain
from bench.metrics.bootstrap import DRAWS, LEVEL
from bench.results.matched import matched_over, matched_quality
from bench.results.points import FULL_PREFILL

NEVER = (1 - LEVEL) / 2
"""A method that reaches the quality in this share of draws or fewer does not reach it."""


class MatchedSpeedup(Measure):
    """TTFT of `over` / TTFT of `of`, both where their own Pareto front has full prefill's quality minus 0.01.

    `over` full prefill: a draw of requests that does not reach the quality is worse than any that does.
    Over another method: no interval unless both reach it in 97.5 % of the draws. At least three ratios.
    """

    kind: Literal["matched_speedup"]
    of: Named
    over: Named = Point(method=FULL_PREFILL)
    form: ClassVar[Form] = "{:.2f}x"

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        others = [self.of] if self.over.method == FULL_PREFILL else [self.of, self.over]
        full = next(iter(at(panel, Point(method=FULL_PREFILL)).values()))
        found: dict[Hashable, Series] = {}
        for point, keys in zip(others, side_by_side(panel, others), strict=True):
            if len(keys) < 3:
                raise TooSmall(f"needs three ρ of {point}; measured: {len(keys)}")
            found |= {(point.method, rho): Series(key, "score") for rho, key in keys.items()}
            found |= {(point.method, rho, "ttft_s"): Series(key, "ttft_s") for rho, key in keys.items()}
        return found | {FULL_PREFILL: Series(full, "score"), "ttft_s": Series(full, "ttft_s")}

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        frame = self._frame(panels)
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

    def _frame(self, panels: Sequence[Panel]) -> pd.DataFrame:
        rows = []
        for panel in panels:
            wanted = self.wanted(panel)
            some = panel.rows[panel.rows["key"].isin([series.key for series in wanted.values()])]
            # one set of requests for all points, as in every other measure
            rows.append(some[some["request"].isin(panel.table(list(wanted.values())).index)])
        return plain(rows).assign(bandwidth="none")
