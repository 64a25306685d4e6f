"""What is said about one claim."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

REPRODUCED = "reproduced"
PARTLY = "reproduced in part"
NOT_REPRODUCED = "not reproduced"
PARTLY_NOT = "not reproduced in part"
INCONCLUSIVE = "inconclusive"
TOO_FEW = "too few requests"
NOT_TESTABLE = "not testable here"
NO_DATA = "no data"
VERDICTS = (REPRODUCED, PARTLY, NOT_REPRODUCED, PARTLY_NOT, INCONCLUSIVE, TOO_FEW, NOT_TESTABLE, NO_DATA)
UNJUDGED = (NOT_TESTABLE, NO_DATA)
"""Kinds without a number."""


@dataclass(frozen=True)
class PanelEstimate:
    """A model on a dataset alone: requests, and its own estimate with interval in words."""

    name: str
    n: int
    measured: str
    verdict: str
    """`REPRODUCED`, `NOT_REPRODUCED` or `INCONCLUSIVE`: where its own interval lies."""


@dataclass(frozen=True)
class Verdict:
    """One claim of the paper held against rows.

    `value` with its 95 % interval [`low`, `high`] is in the unit of `expected`; NaN where there is none,
    infinite where a bound lies beyond everything measured. `n` counts requests over all models and datasets
    that were judged. `reason` says on what it was judged (`axes`) and what else there is to know (`remark`),
    or why it was not judged.

    Texts hold names out of rows as they are: whoever shows them escapes them.
    """

    id: str
    section: str
    claim: str
    expected: str
    measured: str
    value: float
    low: float
    high: float
    n: int
    verdict: str
    """The kind, one of `VERDICTS`."""
    reason: str
    axes: str = ""
    remark: str = ""
    words: str = ""
    """The verdict with its panels or numbers ("reproduced on ruler/vt only"); "" where the kind says all."""
    panels: tuple[PanelEstimate, ...] = ()
    """Each model and dataset by itself, where there are at least two."""
    premise: str = ""
    """What has to be true before the claim can be judged."""
    weak: str = ""
    """Why the verdict is weak whatever it is; "" where it is not."""
    needed: float = float("nan")
    """Requests with which the claim could be shown with 80 % power; NaN where that is not known."""
    p: float = float("nan")
    """Two-sided, of the estimate lying on the other side of the threshold; NaN without a number."""
    survives_holm: bool | None = None
    """Of a reproduced claim: whether it stays so beside all others judged on these rows; else None."""

    @property
    def said(self) -> str:
        """The verdict as it is shown."""
        return self.words or self.verdict

    def record(self) -> dict[str, Any]:
        """The fields as JSON has them: a number that is not finite is None."""
        return {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in asdict(self).items()
        }
