"""Puts the rows of a new method beside those of a finished run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from bench.errors import UserError
from bench.metrics.bootstrap import Interval, paired_ratio
from bench.results.points import FULL_PREFILL, PANEL, PARTS, PREFILLS, WAITS, ok_requests, stream
from bench.results.run_folder import RunFolder

STEADY = 0.1
"""A machine whose full prefill is this much faster or slower than before is worth a warning."""

Panel = tuple[str, str]
"""Model, dataset."""


@dataclass(frozen=True)
class Beside:
    """The rows of both: those of the finished run, and the new method's.

    `drift`: for each model and dataset, full prefill's median TTFT in the finished run over the one measured
    beside the new method, same requests. The new method's times are multiplied by it in `run.frame`, so that
    all times there are of one machine state; the rows on the disk are not touched.
    """

    method: str
    run: RunFolder
    drift: dict[Panel, Interval]
    full: dict[Panel, tuple[pd.Series, pd.Series]]
    """Full prefill's TTFT by request: in the finished run, and beside the new method."""

    @property
    def scaling(self) -> list[str]:
        """Where the method's rows are, and what was done to its times, a sentence each."""
        found = [f"Rows of {self.method}: {', '.join(map(str, self.run.also))}; all others: {self.run.path}."]
        for (model, dataset), d in self.drift.items():
            found.append(
                f"{model}, {dataset}: its times are multiplied by {d.text('.3f')}, full prefill's TTFT in "
                "the finished run over the one measured beside it; timelines are as measured."
            )
        return found

    @property
    def unsteady(self) -> list[str]:
        """One line for each model and dataset where the machine ran at another speed than before."""
        return [
            f"{model}, {dataset}: full prefill took {1 / d.value:.2f} times as long as in the finished run "
            f"(interval {1 / d.high:.2f} to {1 / d.low:.2f}); nothing else should run while measuring"
            for (model, dataset), d in self.drift.items()
            if abs(math.log(d.value)) > STEADY
        ]


def put_beside(base: RunFolder, own: RunFolder, method: str) -> Beside:
    """Combine a finished run with the run of `method` and full prefill on the same requests.

    Raises `UserError` where the two did not run the same requests, or full prefill is missing in one.
    """
    _require_same_requests(base, own)
    _require_one_bandwidth(base)
    mine = own.frame[own.frame["method"] == method].copy()
    _require_measured(mine, own, method)
    panels = sorted({(str(m), str(d)) for m, d in zip(mine["model"], mine["dataset"], strict=True)})
    full = _full(base, own, panels)
    drift = {panel: _drift(panel, *full[panel], own) for panel in panels}
    factor = [drift[str(m), str(d)].value for m, d in zip(mine["model"], mine["dataset"], strict=True)]
    for column in ("ttft_s", *PARTS, *WAITS):
        mine[column] = mine[column] * factor
    frame = pd.concat([base.frame, mine], ignore_index=True)
    info = {**base.info, "methods": [*base.info.get("methods", []), *_described(own, method)]}
    return Beside(method, RunFolder(base.path, frame, info, also=(own.path,)), drift, full)


def _require_one_bandwidth(base: RunFolder) -> None:
    several = base.frame.loc[~base.frame["method"].isin(PREFILLS), "bandwidth"].unique()
    if len(several) > 1:
        raise UserError(
            f"{base.path} has {len(several)} bandwidths; compare takes a run with one, such as fig10's. "
            "For the others: qcbench run fig13 --methods"
        )


def _require_measured(mine: pd.DataFrame, own: RunFolder, method: str) -> None:
    if (mine["status"] == "ok").any():
        return
    first = next((str(error).splitlines()[0] for error in mine["error"].dropna()), "no row of it was written")
    raise UserError(
        f"{method}: not one request was measured ({first}); tracebacks are in {own.path}/errors.log"
    )


def _described(own: RunFolder, method: str) -> list[dict[str, object]]:
    return [m for m in own.info.get("methods", []) if m.get("name") == method]


def _require_same_requests(base: RunFolder, own: RunFolder) -> None:
    keys = [*PANEL, "request"]
    theirs, ours = (run.frame.drop_duplicates(keys).set_index(keys)["request_sha256"] for run in (base, own))
    both = pd.concat([theirs, ours], axis=1, keys=["theirs", "ours"]).dropna()
    if both.empty or (both["theirs"] != both["ours"]).any():
        raise UserError(
            f"{own.path} and {base.path} hold other requests under the same names: a dataset has changed "
            f"since. Measure {base.path} again (--fresh), or delete {own.path} where that is the older one"
        )


def _full(base: RunFolder, own: RunFolder, panels: list[Panel]) -> dict[Panel, tuple[pd.Series, pd.Series]]:
    sides = []
    for run in (base, own):
        full = ok_requests(run.frame[run.frame["method"] == FULL_PREFILL])
        sides.append({key: rows.set_index("request")["ttft_s"] for key, rows in full.groupby(PANEL)})
    before, now = sides
    for model, dataset in panels:
        for where, side in ((base, before), (own, now)):
            if (model, dataset) not in side:
                raise UserError(
                    f"{where.path}: no full prefill of {model} on {dataset} was measured to compare by"
                )
    return {panel: (before[panel], now[panel]) for panel in panels}


def _drift(panel: Panel, before: pd.Series, now: pd.Series, own: RunFolder) -> Interval:
    ratio = paired_ratio(before, now, stream(panel[1]))
    if not ratio.value > 0:
        raise UserError(f"{own.path}: no request of {panel[1]} has full prefill in both runs")
    return ratio
