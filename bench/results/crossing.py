"""At which bandwidth of the store a method's TTFT meets full prefill's (Fig. 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.metrics.bootstrap import DRAWS, LEVEL, Floats, resampled_medians
from bench.results.points import FULL_PREFILL, PANEL, PREFILLS, ok_requests, stream

BELOW, ABOVE = 0.0, float("inf")
"""Positions outside the measured range: faster than full prefill at every bandwidth of it, slower at its
highest."""
CURVE = ["method", "variant", "rho"]
COVERAGE = 0.5
"""A bandwidth measured on a smaller share of full prefill's requests does not enter."""

COLUMNS = [
    "model", "dataset", "method", "variant", "rho", "n", "unit_bytes_per_s", "lowest_x", "highest_x", "where",
    "crossing_x", "crossing_low_x", "crossing_high_x", "crossing_bytes_per_s", "passages",
    "share_below", "share_inside", "share_above", "faster_unthrottled", "words",
]  # fmt: skip


@dataclass(frozen=True)
class Crossing:
    """Where one variant crosses full prefill on one model and dataset.

    `positions` are bandwidths in bytes/s, `BELOW` or `ABOVE`: the estimate, then one for each draw of
    requests. `slower` tells for each of `rates` (bytes/s, rising) whether the method's median TTFT is above
    full prefill's; `unthrottled_faster` has a line as `positions` has, None where "none" was not measured.
    """

    model: str
    dataset: str
    method: str
    variant: str
    rho: float
    n: int
    unit: float
    """Bytes/s of 1x."""
    rates: Floats
    full_s: float
    """Full prefill's median TTFT over the same requests."""
    slower: NDArray[np.bool_]
    positions: Floats
    unthrottled_faster: NDArray[np.bool_] | None

    @property
    def position(self) -> float:
        """The estimate, in bytes/s."""
        return float(self.positions[0])

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval in bytes/s, which may end `BELOW` or `ABOVE` the range; NaN where n = 1."""
        if self.n < 2:
            return float("nan"), float("nan")
        tail = (1 - LEVEL) / 2
        # order statistics: positions outside the range are no numbers to interpolate with
        low = np.quantile(self.positions[1:], tail, method="lower")
        high = np.quantile(self.positions[1:], 1 - tail, method="higher")
        return float(low), float(high)

    @property
    def passages(self) -> int:
        """How often the curve goes from slower to faster as bandwidth rises."""
        return int((self.slower[:-1] & ~self.slower[1:]).sum())

    @property
    def where(self) -> str:
        """ "below", "inside" or "above" the measured range."""
        return "below" if self.position == BELOW else "above" if self.position == ABOVE else "inside"

    @property
    def words(self) -> str:
        """The estimate in words, with its direction."""
        bounds = f"{self.rates[0] / self.unit:.3g}x to {self.rates[-1] / self.unit:.3g}x"
        if self.where == "inside":
            several = f"; the last of {self.passages} passages" if self.passages > 1 else ""
            return f"crosses at {self.position / self.unit:.3g}x ({rate(self.position)}){several}"
        if self.where == "below":
            found = f"faster than full prefill at every bandwidth measured ({bounds})"
        elif self.slower.all():
            found = f"slower than full prefill at every bandwidth measured ({bounds})"
        else:
            return f"unclear: faster at some bandwidth, slower again at the highest ({bounds})"
        if self.unthrottled_faster is not None and self.where == "above":
            found += (
                ", faster without a throttle" if self.unthrottled_faster[0] else ", and without a throttle"
            )
        return f"none inside the measured range: {found}"


def crossings(frame: pd.DataFrame, count: int = DRAWS) -> list[Crossing]:
    """Every variant's crossing on every model and dataset that has full prefill and throttled rows.

    The crossing is the bandwidth from which on the method's median TTFT is at most full prefill's: between
    the highest measured bandwidth where it is slower and the next one, linear in (log bandwidth, TTFT).
    Nothing is extrapolated, and "none" (no throttle) has no place on the axis. Draws take the same requests
    for full prefill and all methods of a panel: those measured under all of them.
    """
    ok = ok_requests(frame, over="bandwidth").dropna(subset=["ttft_s"])
    return [
        one
        for (model, dataset), rows in ok.groupby(PANEL)
        for one in _panel(str(model), str(dataset), rows, stream(str(dataset)), count)
    ]


def _panel(model: str, dataset: str, rows: pd.DataFrame, seed: int, count: int) -> list[Crossing]:
    full = rows[rows["method"] == FULL_PREFILL].drop_duplicates("request").set_index("request")["ttft_s"]
    others = rows[~rows["method"].isin(PREFILLS)]
    units = rows["bandwidth_unit"].dropna()
    if full.empty or units.empty or others["bandwidth_bytes_per_s"].isna().all():
        return []
    rates = others.groupby("bandwidth")["bandwidth_bytes_per_s"].median()
    table = others.pivot_table(index="request", columns=[*CURVE, "bandwidth"], values="ttft_s")
    table = table[table.index.isin(full.index)].sort_index()
    table = table.loc[:, table.notna().sum() >= max(1.0, COVERAGE * len(full))].dropna()
    if table.empty:
        return []
    n = len(table)

    def medians(values: pd.Series) -> Floats:
        array = values.to_numpy(dtype=np.float64)
        return np.concatenate([[np.median(array)], resampled_medians(array, seed, count)])

    reference = medians(full.loc[table.index])
    found = []
    for (method, variant, rho), columns in table.T.groupby(CURVE):
        curve = columns.T[method, variant, rho]
        measured = [name for name in rates.dropna().sort_values().index if name in curve]
        if not measured:
            continue
        times = np.stack([medians(curve[name]) for name in measured], axis=1)
        at = rates[measured].to_numpy(dtype=np.float64)
        found.append(Crossing(
            model, dataset, str(method), str(variant), float(str(rho)), n, float(units.median()),
            at, float(reference[0]), times[0] > reference[0], positions(at, times, reference),
            medians(curve["none"]) <= reference if "none" in curve else None,
        ))  # fmt: skip
    return found


def positions(rates: Floats, times: Floats, reference: Floats) -> Floats:
    """The crossing of each line of `times` (lines, rates) with its `reference` (lines), in bytes/s.

    `rates` rise. `BELOW` where no time is above the reference, `ABOVE` where the last one is.
    """
    gaps = times - reference[:, None]
    slower = gaps > 0
    last = len(rates) - 1 - np.argmax(slower[:, ::-1], axis=1)
    after = np.minimum(last + 1, len(rates) - 1)
    lines = np.arange(len(times))
    above, below = gaps[lines, last], gaps[lines, after]
    inside = slower.any(axis=1) & ~slower[:, -1]
    share = np.divide(above, above - below, out=np.zeros_like(above), where=inside)
    logs = np.log(rates)
    crossing = np.exp(logs[last] + share * (logs[after] - logs[last]))
    return np.where(inside, crossing, np.where(slower[:, -1], ABOVE, BELOW))


def crossing_table(found: list[Crossing]) -> pd.DataFrame:
    """`crossings.csv`: one line for each crossing, in x of the panel's unit.

    NaN for a crossing or a bound outside the measured range; the shares of draws tell on which side.
    """
    return pd.DataFrame([_line(one) for one in found], columns=COLUMNS)


def _line(one: Crossing) -> dict[str, Any]:
    draws = one.positions[1:] if one.n > 1 else np.array([np.nan])
    low, high = one.interval
    unthrottled = one.unthrottled_faster
    return {
        "model": one.model, "dataset": one.dataset, "method": one.method, "variant": one.variant,
        "rho": one.rho, "n": one.n, "unit_bytes_per_s": one.unit,
        "lowest_x": one.rates[0] / one.unit, "highest_x": one.rates[-1] / one.unit, "where": one.where,
        "crossing_x": _inside(one.position) / one.unit,
        "crossing_low_x": _inside(low) / one.unit, "crossing_high_x": _inside(high) / one.unit,
        "crossing_bytes_per_s": _inside(one.position), "passages": one.passages,
        "share_below": _share(draws, draws == BELOW), "share_above": _share(draws, draws == ABOVE),
        "share_inside": _share(draws, (draws > BELOW) & (draws < ABOVE)),
        "faster_unthrottled": None if unthrottled is None else bool(unthrottled[0]), "words": one.words,
    }  # fmt: skip


def _inside(position: float) -> float:
    return position if BELOW < position < ABOVE else float("nan")


def _share(draws: Floats, which: NDArray[np.bool_]) -> float:
    return float("nan") if np.isnan(draws).any() else float(which.mean())


def rate(bytes_per_s: float) -> str:
    """ "14.7 MB/s", "1.51 GB/s"."""
    for size, name in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {name}"
    return f"{bytes_per_s:.3g} B/s"
