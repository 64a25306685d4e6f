"""What a measure is: a number over panels, with a line for each draw of requests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from bench.claims.panel import Panel, Series
from bench.claims.points import TooSmall
from bench.metrics.bootstrap import Floats, percentile_interval

Lines = Mapping[Hashable, Floats]
Form = str
"""A format of one number: "{:.2f}x"."""


class Estimate(NamedTuple):
    """A number, its 95 % interval (bounds may be infinite), and words in place of it or beside it."""

    value: float
    low: float
    high: float
    instead: str = ""
    """What to say where there is no number: "not reached"."""
    note: str = ""
    tied: bool = False
    """Whether every request gave the same: the interval is then 3 / n to both sides."""
    p: float | None = None
    """A p-value of its own; None where it follows from the interval."""


class Measure(BaseModel):
    """A named, typed measure. What it computes stands in its class's docstring and in docs/claims.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    form: ClassVar[Form] = "{:.3f}"
    scored: ClassVar[bool] = True
    """Whether it reads scores: then panels whose scores tell nothing do not enter."""

    logarithmic: ClassVar[bool] = False
    """Whether it is a quotient, whose distances are those of logarithms."""

    sampled: ClassVar[bool] = False
    """Whether requests that all give the same number may hide some that would not: scores and recall do."""

    @property
    def reads_scores(self) -> bool:
        """Whether panels whose scores tell nothing are left out."""
        return self.scored

    def text(self, value: float) -> str:
        """A value of this measure in words."""
        text = self.form.format(value)
        return text.replace("-", "+") if float(text.strip("x%")) == 0 else text

    @abstractmethod
    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        """The series it takes of a panel. Raises `Missing` or `TooSmall`."""

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        """From averages over requests, by `wanted`'s names: what is averaged over panels, [1 + draws]."""
        return dict(lines)

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        """From means over panels the number, [1 + draws], and a remark. Raises `TooSmall`."""
        (only,) = pooled.values()
        return only, ""

    def pooled(self, panels: Sequence[Panel]) -> tuple[Floats, str]:
        """The number over panels, every panel weighing the same: [1 + draws], and a remark."""
        each: list[dict[Hashable, Floats]] = []
        for panel in panels:
            wanted = self.wanted(panel)
            lines = dict(zip(wanted, panel.lines(list(wanted.values())), strict=True))
            with np.errstate(divide="ignore", invalid="ignore"):
                each.append(self.parts(panel, lines))
        names = [name for name in each[0] if all(name in parts for parts in each)]
        if not names:
            raise TooSmall("its models and datasets have no points in common")
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.reduce({name: np.mean([parts[name] for parts in each], axis=0) for name in names})

    def estimate(self, panels: Sequence[Panel], n: int) -> Estimate:
        """The number over panels with its interval; `n` is how many requests they have."""
        lines, note = self.pooled(panels)
        return self.interval(lines, n, note)

    def interval(self, lines: Floats, n: int, note: str = "") -> Estimate:
        """The estimate of [1 + draws] with its 95 % percentile interval.

        Where draws cannot differ, because every request gives the same, a bootstrap knows nothing: the
        interval is then 3 / n to both sides (the rule of three: what occurs in a share of 3 / n of requests
        is not seen among n with a probability of 5 %).
        """
        found = percentile_interval(float(lines[0]), lines[1:], n)
        if self.sampled and found.high - found.low < 1e-9:
            note = "; ".join(
                filter(None, [note, f"the same in all requests: interval 3 / {n} to both sides"])
            )
            return Estimate(found.value, found.value - 3 / n, found.value + 3 / n, note=note, tied=True)
        return Estimate(found.value, found.low, found.high, note=note)


def least(pooled: Lines) -> tuple[Floats, str]:
    """The least of several numbers, draw by draw, and which one it is in the estimate."""
    stacked = np.stack(list(pooled.values()))
    names = list(pooled)
    note = f"least over {names[int(np.argmin(stacked[:, 0]))]}" if len(names) > 1 else ""
    return stacked.min(axis=0), note
