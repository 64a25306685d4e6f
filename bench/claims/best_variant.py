"""A method against the best parameter set of a baseline."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from bench.claims.compare import Quality
from bench.claims.measure import Form, Lines, Measure
from bench.claims.panel import Panel, Series
from bench.claims.points import Missing, Named, at, bandwidths_of
from bench.metrics.bootstrap import Floats


class BestVariantDifference(Measure):
    """Mean `column` of a point less that of the best parameter set measured of some baselines, at equal rho.

    Every parameter set measured at all of the point's ratios counts, the default among them; at least two of
    each baseline. The best is picked after the fact, so the interval is simultaneous over all sets: the least
    difference -/+ the 95 % quantile, over draws, of the largest deviation of any difference from its
    estimate. That holds whichever set is the best one.
    """

    kind: Literal["best_variant_difference"]
    of: Named
    over: tuple[str, ...] = Field(min_length=1)
    column: Quality = "score"
    form: ClassVar[Form] = "{:+.3f}"
    sampled: ClassVar[bool] = True

    @property
    def reads_scores(self) -> bool:
        return self.column == "score"

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        lacks: list[Missing] = []
        for bandwidth in bandwidths_of(panel, "fastest"):
            try:
                return self._at(panel, bandwidth)
            except Missing as lack:
                lacks.append(lack)
        raise lacks[0]

    def _at(self, panel: Panel, bandwidth: str) -> dict[Hashable, Series]:
        measured = at(panel, self.of)
        own = {
            key.rho: key
            for key in panel.keys
            if key[:2] == next(iter(measured.values()))[:2]
            and key[3:] == (bandwidth, None)
            and 0 < key.rho < 1
            and key.rho in (self.of.rho or (key.rho,))
        }
        found: dict[Hashable, Series] = {("", rho): Series(key, self.column) for rho, key in own.items()}
        for method in self.over:
            sets: dict[str, dict[float, Series]] = {}
            for key in panel.keys:
                if key.method == method and key[3:] == (bandwidth, None) and key.rho in own:
                    sets.setdefault(key.params, {})[key.rho] = Series(key, self.column)
            whole = {params: at_rho for params, at_rho in sets.items() if set(at_rho) == set(own)}
            if len(whole) < 2:
                raise Missing(f"no rows of several parameter sets of {method} at the ρ of {self.of}")
            found |= {
                (_name(method, params), rho): s for params, at in whole.items() for rho, s in at.items()
            }
        return found

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        sides: dict[str, list[Floats]] = {}
        for name, line in lines.items():
            assert isinstance(name, tuple)
            sides.setdefault(name[0], []).append(line)
        means = {name: np.mean(some, axis=0) for name, some in sides.items()}
        own = means.pop("")
        return {name: own - mean for name, mean in means.items()}

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        names, stacked = list(pooled), np.stack(list(pooled.values()))
        best = int(np.argmin(stacked[:, 0]))
        least = stacked[best, 0]
        deviation = np.abs(stacked[:, 1:] - stacked[:, :1]).max(axis=0)
        # both signs: the 97.5 % quantile of these is the 95 % quantile of the deviation
        lines = np.concatenate([[least], least + deviation, least - deviation])
        return lines, f"best of {len(names)} parameter sets: {names[best]}; interval simultaneous over them"


def _name(method: str, params: str) -> str:
    given = json.loads(params)
    shown = ",".join(f"{key}={value}" for key, value in given.items())
    return f"{method}[{shown}]" if shown else f"{method}, default"
