"""Measures that compare operating points: differences, ratios, shares, sweeps."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from bench.claims.measure import Form, Lines, Measure, least
from bench.claims.panel import Panel, Series, Stat
from bench.claims.points import Named, Point, Store, TooSmall, at, at_all, side_by_side
from bench.metrics.bootstrap import Floats
from bench.results.points import FULL_PREFILL

Quality = Literal["score", "evidence_recall"]
Time = Literal["ttft_s", "select_s", "bytes_before_fusion"]


def _mean(lines: Lines, side: int) -> Floats:
    mean: Floats = np.mean([line for name, line in lines.items() if _side(name) == side], axis=0)
    return mean


def _side(name: Hashable) -> int:
    assert isinstance(name, tuple)
    return int(name[0])


class Difference(Measure):
    """Mean of `column` of a point, minus that of another, in the column's unit (scores lie in [0, 1]).

    Over several ratios: the mean of their means. Over several points: the least of the differences.
    """

    kind: Literal["difference"]
    of: Named
    over: tuple[Named, ...] = Field(min_length=1)
    column: Quality = "score"
    form: ClassVar[Form] = "{:+.3f}"
    sampled: ClassVar[bool] = True

    @property
    def reads_scores(self) -> bool:
        return self.column == "score"

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        sides = side_by_side(panel, [self.of, *self.over])
        return {
            (side, rho): Series(key, self.column)
            for side, keys in enumerate(sides)
            for rho, key in keys.items()
        }

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        return {
            str(point): _mean(lines, 0) - _mean(lines, side) for side, point in enumerate(self.over, start=1)
        }

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        return least(pooled)


class Ratio(Measure):
    """`column` of a point / that of another: medians of times, means of bytes.

    Over several ratios: the mean of the quotients at each. Over several points: the least of them. `store`
    says at which of the panel's bandwidths.
    """

    kind: Literal["ratio"]
    of: Named
    over: tuple[Named, ...] = Field(min_length=1)
    column: Time = "ttft_s"
    store: Store = "fastest"
    form: ClassVar[Form] = "{:.2f}x"
    logarithmic: ClassVar[bool] = True
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        stat: Stat = "mean" if self.column == "bytes_before_fusion" else "median"
        sides = side_by_side(panel, [self.of, *self.over], self.store)
        return {
            (side, rho): Series(key, self.column, stat)
            for side, keys in enumerate(sides)
            for rho, key in keys.items()
        }

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        def side(number: int) -> Floats:
            # a side at one ratio alone, such as full prefill, stands against each of the other's
            return np.stack([line for name, line in lines.items() if _side(name) == number])

        return {
            str(point): (side(0) / side(number)).mean(axis=0)
            for number, point in enumerate(self.over, start=1)
        }

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        return least(pooled)


class Share(Measure):
    """Mean select_s / mean ttft_s at a point: selection's share of TTFT. Decoding is no part of TTFT."""

    kind: Literal["select_share"]
    of: Named
    store: Store = "fastest"
    form: ClassVar[Form] = "{:.0%}"
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        key = next(iter(at(panel, self.of, self.store).values()))
        return {"part": Series(key, "select_s"), "whole": Series(key, "ttft_s")}

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        return {"share": lines["part"] / lines["whole"]}


class Mean(Measure):
    """Mean of `column`, a share in [0, 1], at a method's lowest ratio."""

    kind: Literal["mean"]
    of: Named
    column: Literal["attention_top10"]
    form: ClassVar[Form] = "{:.0%}"
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        return {"": Series(next(iter(at(panel, self.of).values())), self.column)}


class Rises(Measure):
    """The least step of TTFT over rho: median TTFT at a ratio / that at the next lower one.

    Medians are first divided by full prefill's and averaged over panels. The least over all neighbouring
    ratios of all methods named; at least three ratios.
    """

    kind: Literal["ttft_rises"]
    of: tuple[Named, ...] = Field(min_length=1)
    store: Store = "fastest"
    form: ClassVar[Form] = "{:.2f}x"
    logarithmic: ClassVar[bool] = True
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        full = next(iter(at(panel, Point(method=FULL_PREFILL)).values()))
        found: dict[Hashable, Series] = {FULL_PREFILL: Series(full, "ttft_s", "median")}
        for point, measured in zip(self.of, at_all(panel, self.of, self.store), strict=True):
            keys = {rho: key for rho, key in measured.items() if 0 < rho < 1}
            if len(keys) < 3:
                raise TooSmall(f"needs three ρ of {point}; measured: {len(keys)}")
            found |= {(str(point), rho): Series(key, "ttft_s", "median") for rho, key in keys.items()}
        return found

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        full = lines[FULL_PREFILL]
        return {name: line / full for name, line in lines.items() if name != FULL_PREFILL}

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        steps: dict[Hashable, Floats] = {}
        for point in map(str, self.of):
            ratios = sorted(name[1] for name in pooled if isinstance(name, tuple) and name[0] == point)
            if len(ratios) < 3:
                raise TooSmall(f"needs three ρ of {point} on every model and dataset")
            steps |= {
                f"{point}, ρ {low:g} to {high:g}": pooled[point, high] / pooled[point, low]
                for low, high in pairwise(ratios)
            }
        stacked = np.stack(list(steps.values()))
        return stacked.min(axis=0), f"least for {list(steps)[int(np.argmin(stacked[:, 0]))]}"
