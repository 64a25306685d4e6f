"""A panel: one model on one dataset at one context shape, as one run measured it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from bench.metrics.bootstrap import Floats, resampled_means, resampled_medians
from bench.results.points import FULL_PREFILL, PANEL, POINT, ok_requests, stream
from bench.results.run_folder import RunFolder

Stat = Literal["mean", "median"]
Shape = tuple[int, int]
"""Chunks, tokens a chunk."""

DEFAULTS: dict[str, dict[str, Any]] = {"qcfuse": {"anchor_ratio": 0.1, "anchor_rule": "kvzip", "layers": 3}}
"""Parameters that claims name, as the adapters have them where a row does not (a test compares them)."""

COLD_PREFILL = "cold_prefill"
"""Full prefill with nothing cached: it reads no cache either, and is no reference."""

_PER_REQUEST = ["attention_top10", "layer_overlap"]


class Key(NamedTuple):
    """An operating point of a panel. `bandwidth` is "" for full prefill, which reads no cache."""

    method: str
    params: str
    rho: float
    bandwidth: str
    rate: float | None = None
    """Requests a second; None where requests were measured one at a time."""


class Series(NamedTuple):
    """A column of rows at a point, and how it is averaged over requests."""

    key: Key
    column: str
    stat: Stat = "mean"


@dataclass(frozen=True)
class Panel:
    """Measured rows, one line an operating point and request, and what a verdict has to say of them."""

    run: str
    """Name of the run's folder."""
    model: str
    dataset: str
    shape: Shape
    info: Mapping[str, Any]
    every: pd.DataFrame = field(repr=False)
    """All rows of the panel, failed ones included; none that are predicted."""
    rows: pd.DataFrame = field(repr=False)
    """Those measured, with a column `key` (`Key`)."""
    layers: int
    """Layers of the model; 0 where no row tells."""
    drawn: dict[tuple[Series, tuple[str, ...]], Floats] = field(default_factory=dict, repr=False)
    """Lines drawn so far, by series and requests."""

    @cached_property
    def by_key(self) -> dict[Key, pd.DataFrame]:
        """The measured rows of each point, sorted, by request."""
        places: dict[Key, list[int]] = {}
        for place, key in enumerate(self.rows["key"]):
            places.setdefault(key, []).append(place)
        ordered = sorted(places, key=lambda key: (*key[:4], key.rate or 0.0))
        return {
            key: self.rows.iloc[places[key]].drop_duplicates("request").set_index("request")
            for key in ordered
        }

    @property
    def keys(self) -> list[Key]:
        """The points measured, sorted."""
        return list(self.by_key)

    @cached_property
    def broken(self) -> list[Key]:
        """The points of which every row failed or ran out of memory, skipped ones aside."""
        bad = self.every[self.every["status"].isin(["failed", "oom"])]
        return sorted(set(bad["key"]) - set(self.by_key), key=str)

    @cached_property
    def bandwidths(self) -> dict[str, float]:
        """The bandwidths measured, slowest first, in bytes/s; infinite without a throttle."""
        some = self.rows[~self.rows["method"].isin([FULL_PREFILL, COLD_PREFILL])]
        rates = some.groupby("bandwidth")["bandwidth_bytes_per_s"].median().fillna(float("inf"))
        return {str(name): float(rate) for name, rate in rates.sort_values().items()}

    @cached_property
    def multiples(self) -> dict[str, float]:
        """The throttles measured, slowest first, in multiples of 1x; none where the rows do not tell 1x."""
        unit = float(self.rows["bandwidth_unit"].median())
        throttled = {name: rate for name, rate in self.bandwidths.items() if rate < float("inf")}
        return {name: rate / unit for name, rate in throttled.items()} if unit > 0 else {}

    def table(self, wanted: Sequence[Series]) -> pd.DataFrame:
        """[requests, wanted]: the requests that have every series, by sorted id."""
        columns = [self.by_key[key][column] for key, column, _ in wanted]
        return pd.concat(columns, axis=1, keys=range(len(wanted))).dropna().sort_index()

    def lines(self, wanted: Sequence[Series]) -> list[Floats]:
        """The average of each series: [1 + draws], the estimate and then one for each draw of requests.

        All series take the same requests, in the estimate and in every draw.
        """
        table = self.table(wanted)
        requests = tuple(table.index)
        found = []
        for at, series in enumerate(wanted):
            # claims share points: a paper-sized run would draw the same lines a dozen times
            known = (series, requests)
            if known not in self.drawn:
                self.drawn[known] = self._line(table[at].to_numpy(dtype=np.float64), series.stat)
            found.append(self.drawn[known])
        return found

    def _line(self, values: Floats, stat: Stat) -> Floats:
        seed, mean = stream(self.dataset), stat == "mean"
        estimate = values.mean() if mean else np.median(values)
        draws = (resampled_means if mean else resampled_medians)(values, seed)
        return np.concatenate([[estimate], draws])

    def failed_share(self, keys: Sequence[Key]) -> float:
        """The largest share of rows at one of these points that failed or ran out of memory."""
        some = self.every[self.every["key"].isin(list(keys))]
        failed = some["status"].isin(["failed", "oom"])
        return 0.0 if some.empty else float(failed.groupby(some["key"]).mean().max())

    def disturbed(self, keys: Sequence[Key]) -> list[bool | None]:
        """Of each request measured at one of these points, whether the machine was disturbed when any of them
        was timed; None where no row tells."""
        some = self.every[self.every["key"].isin(list(keys)) & (self.every["status"] == "ok")]
        known = some.groupby("request")["disturbed"]
        return [None if flags.isna().all() else bool(flags.eq(True).any()) for _, flags in known]

    @property
    def tells_nothing(self) -> str:
        """Why scores of this panel tell nothing, "" where they do (see `bench.results.points.alarms`)."""
        scores = self.rows["score"].dropna()
        full = scores[self.rows["method"] == FULL_PREFILL]
        if scores.empty:
            return f"{self.dataset}: no scored request"
        if (scores == 0).all() or (scores == 1).all():
            return f"{self.dataset}: every score of every method is {scores.iloc[0]:.0f}"
        if len(full) and (full == 0).all():
            return f"{self.dataset}: every score of full prefill is 0"
        return ""


def panels_of(runs: Sequence[RunFolder]) -> list[Panel]:
    """The panels of all runs, in their order. Rows of different runs are never put into one panel."""
    return [
        _panel(run, str(model), str(dataset), (int(str(chunks)), int(str(tokens))), rows)
        for run in runs
        for (model, dataset, chunks, tokens), rows in _measured(run.frame).groupby(
            [*PANEL, "chunks", "chunk_tokens"], sort=False
        )
    ]


def canonical(method: str, params: Mapping[str, Any], layers: int) -> str:
    """Parameters as JSON text, defaults left out and layer views named.

    `layers` is the model's number of layers: {"layers": [23]} of 24 is "final". Views are first, middle
    (layer floor(L / 2)), final, all, top-k for the k best profiled ones, layer-i.
    """
    defaults = DEFAULTS.get(method, {})
    own = {key: value for key, value in params.items() if key not in defaults or value != defaults[key]}
    if "layers" in own:
        own["layers"] = _layer_view(own["layers"], layers)
        if own["layers"] == f"top-{defaults.get('layers')}":
            del own["layers"]
    return json.dumps(own, sort_keys=True)


def _layer_view(view: Any, layers: int) -> str:
    if isinstance(view, str):
        return view
    if isinstance(view, int):
        return "all" if view == layers else f"top-{view}"
    ids = sorted(view)
    if layers and ids == list(range(layers)):
        return "all"
    if len(ids) != 1:
        return "layers-" + "-".join(map(str, ids))
    names = {0: "first", layers // 2: "middle", layers - 1: "final"} if layers else {0: "first"}
    return names.get(ids[0], f"layer-{ids[0]}")


def _measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Without rows of the cost model."""
    return frame[frame["predicted"].ne(True)] if len(frame) else frame


def _panel(run: RunFolder, model: str, dataset: str, shape: Shape, every: pd.DataFrame) -> Panel:
    layers = int(every["positions_recomputed"].map(len).max())
    canon = {
        (method, text): canonical(method, json.loads(text), layers)
        for method, text in zip(every["method"], every["params"], strict=True)
    }

    def keyed(rows: pd.DataFrame, rate: float | None) -> pd.DataFrame:
        keys = [
            Key(m, canon[m, p], float(rho), "" if m == FULL_PREFILL else b, rate)
            for m, p, rho, b in zip(
                rows["method"], rows["params"], rows["rho"], rows["bandwidth"], strict=True
            )
        ]
        # a tuple would be taken for several columns
        return rows.assign(key=pd.Series(keys, index=rows.index, dtype=object))

    parts, rows = [], []
    for rate, some in every.groupby("request_rate", dropna=False):
        number = None if pd.isna(rate) else float(str(rate))
        parts.append(keyed(some, number))
        measured = ok_requests(some)
        # repetitions are averaged there, over the columns that a table needs
        missing = [name for name in _PER_REQUEST if name not in measured]
        if missing:
            first = some[some["status"] == "ok"].drop_duplicates([*POINT, "request"])
            measured = measured.merge(first[[*POINT, "request", *missing]], on=[*POINT, "request"])
        rows.append(keyed(measured, number))
    measured = _spread(pd.concat(rows, ignore_index=True))
    return Panel(run.path.name, model, dataset, shape, run.info, pd.concat(parts), measured, layers)


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """With a column for each layer of `layer_overlap`: "layer_overlap_0", ..."""
    known = rows["layer_overlap"].dropna()
    if known.empty:
        return rows
    spread = pd.DataFrame(known.tolist(), index=known.index).add_prefix("layer_overlap_")
    return rows.join(spread)
