"""Measures over the store's bandwidth and the request rate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from bench.claims.measure import Estimate, Form, Lines, Measure
from bench.claims.panel import Key, Panel, Series, canonical
from bench.claims.points import Missing, Named, Point, Store, TooSmall, at, bandwidths_of
from bench.metrics.bootstrap import DRAWS, LEVEL, Floats
from bench.results.bandwidth_claim import judge
from bench.results.crossing import Crossing, crossings
from bench.results.points import FULL_PREFILL


class _OverBandwidth(Measure):
    """Full prefill's and some points' TTFT at every bandwidth of the panel."""

    unit: Literal["x", "GB/s"] = "x"
    spans: tuple[float, float] | None = None
    """The bandwidths, in `unit`, from which and to which a panel must have been measured."""
    scored: ClassVar[bool] = False

    @abstractmethod
    def points(self) -> list[Point]:
        """The points whose TTFT is read, each at one ratio."""

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        full = next(iter(at(panel, Point(method=FULL_PREFILL)).values()))
        found: dict[Hashable, Series] = {FULL_PREFILL: Series(full, "ttft_s", "median")}
        for point in self.points():
            text = canonical(point.method, point.params, panel.layers)
            (rho,) = point.rho or (0.5,)
            if any(k[:3] == (point.method, text, rho) and k.rate is None for k in panel.broken):
                raise TooSmall(f"{panel.dataset}: every row of {point} at one bandwidth failed")
            keys = [k for k in panel.keys if k[:3] == (point.method, text, rho) and k.rate is None]
            if not keys:
                raise Missing(f"no measured rows of {point} at ρ {rho:g}")
            if len(keys) < 2:
                raise Missing(f"no rows of {point} over several bandwidths")
            found |= {(point.method, k.bandwidth): Series(k, "ttft_s", "median") for k in keys}
        if self.spans is not None:
            self._check(panel, *self.spans)
        return found

    def _check(self, panel: Panel, low: float, high: float) -> None:
        rates = panel.bandwidths.values()
        absolute = [rate / 1e9 for rate in rates if np.isfinite(rate)]
        measured = absolute if self.unit == "GB/s" else list(panel.multiples.values())
        if not measured or measured[0] > low * 1.001 or measured[-1] < high * 0.999:
            has = f"{measured[0]:.3g} to {measured[-1]:.3g} {self.unit}" if measured else "no throttle"
            raise TooSmall(f"profile: needs bandwidths from {low:g} to {high:g} {self.unit}; measured: {has}")

    def frame(self, panels: Sequence[Panel]) -> pd.DataFrame:
        """The rows of these points, as `bench.results.crossing` takes them."""
        wanted = [{series.key for series in self.wanted(panel).values()} for panel in panels]
        rows = [
            panel.rows[panel.rows["key"].isin(list(keys))] for panel, keys in zip(panels, wanted, strict=True)
        ]
        return plain(rows)


class CrossingPoint(_OverBandwidth):
    """The bandwidth from which on a method's median TTFT is at most full prefill's (docs/metrics.md).

    In GB/s or in multiples of 1x; over panels the geometric mean. 0 where a method is faster at every
    bandwidth measured, infinite where it is slower at every one.
    """

    kind: Literal["crossing"]
    of: Named
    logarithmic: ClassVar[bool] = True

    def text(self, value: float) -> str:
        return f"{value:.3g}x" if self.unit == "x" else f"{value:.3g} GB/s"

    def points(self) -> list[Point]:
        return [self.of]

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        found = [one for one in crossings(self.frame(panels)) if one.method == self.of.method]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(one.positions / (one.unit if self.unit == "x" else 1e9)) for one in found]
            lines = np.exp(np.mean(logs, axis=0))
        tail = (1 - LEVEL) / 2
        # order statistics: positions outside the range are no numbers to interpolate with
        low = float(np.quantile(lines[1:], tail, method="lower"))
        high = float(np.quantile(lines[1:], 1 - tail, method="higher"))
        words = "; ".join(one.words for one in found)
        value = float(lines[0])
        return Estimate(value, low, high, "" if 0 < value < float("inf") else words)


class CrossesLower(_OverBandwidth):
    """The share of panels where `full_view` crosses full prefill at some bandwidth, `of` lower or never.

    Judged panel by panel and draw by draw by `bench.results.bandwidth_claim`: 1 where it holds, 0 where it
    does not, an interval from 0 to 1 where it is undecided.
    """

    kind: Literal["crosses_lower"]
    of: Named
    full_view: Named
    form: ClassVar[Form] = "{:.0%}"

    def points(self) -> list[Point]:
        return [self.full_view, self.of]

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        found: list[Crossing] = crossings(self.frame(panels))
        judged = judge(found, self.full_view.method, self.of.method)
        holds = [one.verdict == "holds" for one in judged]
        fails = [one.verdict == "does not hold" for one in judged]
        words = "; ".join(
            f"{one.method} {one.words}"
            for one in found
            if one.method in (self.of.method, self.full_view.method)
        )
        draws = ", ".join(f"{one.share:.0%}" for one in judged)
        # in the panel where it is least sure, no smaller than the draws can show; 1 where panels disagree
        agree = all(holds) or all(fails)
        unsure = max(min(one.share, 1 - one.share) for one in judged) if agree else 0.5
        return Estimate(
            float(np.mean([one.share >= 0.5 for one in judged])),
            float(np.mean(holds)),
            1 - float(np.mean(fails)),
            f"true in {draws} of the draws",
            words,
            p=max(2 * unsure, 2 / (DRAWS + 1)),
        )


class AdvantageGrowth(_OverBandwidth):
    """How much larger the TTFT saved is at the slowest bandwidth than at the fastest.

    (TTFT of `over` - TTFT of `of`) / full prefill's TTFT, medians, at the slowest throttle minus at the
    fastest bandwidth.
    """

    kind: Literal["advantage_growth"]
    of: Named
    over: Named
    form: ClassVar[Form] = "{:+.2f}"

    def points(self) -> list[Point]:
        return [self.of, self.over]

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        def gap(bandwidth: str) -> Floats:
            saved = lines[self.over.method, bandwidth] - lines[self.of.method, bandwidth]
            return saved / lines[FULL_PREFILL]

        both = [name for name in panel.bandwidths if {(p.method, name) for p in self.points()} <= set(lines)]
        if len(both) < 2:
            raise TooSmall("the methods have fewer than two bandwidths in common")
        return {"": gap(both[0]) - gap(both[-1])}


class WorstRate(Measure):
    """The largest ratio of median TTFTs, of `of` and of `over`, over the request rates both have.

    Below 1 the whole curve of TTFT over the rate lies lower, and so further right. At least three rates;
    the largest is taken in each panel, since rates differ between models.
    """

    kind: Literal["worst_rate"]
    of: Named
    over: Named
    store: Store | None = None
    """The bandwidths that count; None: any."""
    form: ClassVar[Form] = "{:.2f}x"
    logarithmic: ClassVar[bool] = True
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        sides = [self._by_rate(panel, point) for point in (self.of, self.over)]
        rates = sorted(set(sides[0]) & set(sides[1]))
        if not rates:
            raise Missing(f"no rows of {self.of} and {self.over} at the same request rates")
        if len(rates) < 3:
            raise TooSmall(f"needs three request rates; measured: {len(rates)}")
        return {
            (side, rate): Series(keys[rate], "ttft_s", "median")
            for side, keys in enumerate(sides)
            for rate in rates
        }

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        rates = sorted({name[1] for name in lines if isinstance(name, tuple)})
        return {"": np.max([lines[0, rate] / lines[1, rate] for rate in rates], axis=0)}

    def _by_rate(self, panel: Panel, point: Point) -> dict[float, Key]:
        params = canonical(point.method, point.params, panel.layers)
        rho = point.rho[0] if point.rho else None
        for key in panel.broken:
            if key.rate is not None and key[:2] == (point.method, params) and rho in (None, key.rho):
                raise TooSmall(f"{panel.dataset}: every row of {point} at {key.rate:g} requests/s failed")
        keys = [
            key
            for key in panel.keys
            if key.rate is not None and key[:2] == (point.method, params) and rho in (None, key.rho)
        ]
        if self.store is not None and keys and point.method != FULL_PREFILL:
            allowed = bandwidths_of(panel, self.store)
            keys = [key for key in keys if key.bandwidth in allowed]
        return {key.rate: key for key in keys if key.rate is not None}


def plain(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of chosen points for code that names variants: methods alone tell them apart."""
    return pd.concat(rows).drop(columns="key").assign(params="{}", status="ok")
