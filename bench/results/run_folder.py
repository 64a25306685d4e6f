"""A finished run as its reports see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results.best_variant import BestFoot, best_feet
from bench.results.matched import matched_quality
from bench.results.summary import summarise


@dataclass(frozen=True)
class RunFolder:
    """The folder, its rows (one line a row) and the content of `run.json`."""

    path: Path
    frame: pd.DataFrame
    info: dict[str, Any]
    also: tuple[Path, ...] = ()
    """Folders of further rows in `frame`: their prompts, selections and timelines belong to it too."""

    @cached_property
    def summary(self) -> pd.DataFrame:
        """`summarise` of the rows: made once, not to be written to."""
        return summarise(self.frame)

    @cached_property
    def best(self) -> tuple[list[BestFoot], list[str]]:
        """`best_feet` of the rows: made once."""
        return best_feet(self.frame)

    @cached_property
    def matched(self) -> pd.DataFrame:
        """`matched_quality` of the rows: made once, not to be written to."""
        return matched_quality(self.frame)
