"""Comparing only like with like: the requests that everything compared was measured on."""

from __future__ import annotations

import pandas as pd

COVERAGE = 0.5
"""What lacks more than this share of a dataset's requests leaves the comparison, not the requests."""


def common(ok: pd.DataFrame, by: list[str], values: str) -> tuple[pd.DataFrame, list[str]]:
    """A column of measured rows by (dataset, request) and `by`, and what was left out.

    `ok` are measured rows of one model. What was measured on less than half of some dataset's requests is
    left out, named with that dataset; then requests that a remaining column lacks. The index keeps
    (dataset, request), the columns are those of `by`.
    """
    means = ok.groupby(["dataset", "request", *by])[values].mean()
    # of one level the columns shall be plain values; requests that a dataset does not have are no lines
    wide = means.unstack(by if len(by) > 1 else by[0])
    known = wide.notna().groupby(level="dataset").mean()
    short = (known < COVERAGE).any()
    left_out = [
        f"{_name(key)}: measured on {known[key].min():.0%} of {known[key].idxmin()}, left out"
        for key in wide.columns[short]
    ]
    return wide.loc[:, ~short].dropna(), left_out


def _name(key: object) -> str:
    return " ".join(str(part) for part in key if part != "{}") if isinstance(key, tuple) else str(key)
