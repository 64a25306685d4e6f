"""What is said about one claim."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
INCONCLUSIVE = "inconclusive"
NOT_TESTABLE = "not testable here"
NO_DATA = "no data"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTABLE, NO_DATA)


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
    reason: str
    axes: str = ""
    remark: str = ""

    def record(self) -> dict[str, Any]:
        """The fields as JSON has them: a number that is not finite is None."""
        return {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in asdict(self).items()
        }
