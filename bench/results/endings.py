"""How answers end: the share that ran into the limit of new tokens."""

from __future__ import annotations

import pandas as pd

MANY = 0.10
"""A figure says so where more of a point's answers than this were cut."""


def cut_text(share: float) -> str:
    """ "12 % cut"; "" where none was, or the rows do not tell."""
    return "" if pd.isna(share) or share <= 0 else f"{100 * share:.0f} % cut"


def often_cut(summary: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """By dataset where some point passes `MANY`: the largest share, and the variant that has it."""
    found = {}
    for dataset, some in summary.dropna(subset=["at_limit"]).groupby("dataset"):
        worst = some.sort_values("at_limit").iloc[-1]
        if worst["at_limit"] > MANY:
            found[str(dataset)] = (float(worst["at_limit"]), str(worst["variant"]))
    return found
