"""Measures over a parameter of a method: anchor ratios, profiled layers, single layers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar, Literal

import numpy as np

from bench.claims.compare import Quality
from bench.claims.measure import Form, Lines, Measure
from bench.claims.panel import DEFAULTS, Key, Panel, Series
from bench.claims.points import Missing, Named, TooSmall, at, chosen_bandwidth, values_of
from bench.metrics.bootstrap import Floats


class Sweep(Measure):
    """Quality over the values of one parameter: the mean over ratios of the mean of `column`.

    Ratios are `rho`, or those between 0 and 1 that every value was measured at.
    """

    method: str = "qcfuse"
    column: Quality = "score"
    rho: float | None = None
    form: ClassVar[Form] = "{:+.3f}"
    sampled: ClassVar[bool] = True

    @property
    def reads_scores(self) -> bool:
        return self.column == "score"

    @abstractmethod
    def values(self, panel: Panel) -> dict[float, str]:
        """Canonical parameters by the swept parameter's value, rising."""

    @abstractmethod
    def needs(self, values: set[float]) -> str:
        """What is short of these values, "" where nothing is."""

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        bandwidth, params = chosen_bandwidth(panel, "fastest"), self.values(panel)
        keys: dict[float, dict[float, Key]] = {
            value: {
                k.rho: k for k in panel.keys if k[:2] == (self.method, text) and k[3:] == (bandwidth, None)
            }
            for value, text in params.items()
        }
        if self.rho is not None:
            keys = {value: at_rho for value, at_rho in keys.items() if self.rho in at_rho}
        if len(keys) < 2:
            raise Missing(f"no measured rows of {self.method} with several {self.swept}")
        short = self.needs(set(keys))
        if short:
            raise TooSmall(short)
        common = (
            {self.rho} if self.rho is not None else set.intersection(*map(set, keys.values())) - {0.0, 1.0}
        )
        if not common:
            raise TooSmall(f"the {self.swept} of {self.method} have no ρ in common")
        return {
            (value, rho): Series(keys[value][rho], self.column)
            for value in sorted(keys)
            for rho in sorted(common)
        }

    @property
    def swept(self) -> str:
        """The parameter in words, plural."""
        return "layer views"

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        by_value: dict[Hashable, list[Floats]] = {}
        for name, line in lines.items():
            assert isinstance(name, tuple)
            by_value.setdefault(name[0], []).append(line)
        return {value: np.mean(some, axis=0) for value, some in by_value.items()}

    def checked(self, pooled: Lines) -> dict[float, Floats]:
        """Quality by value. Raises `TooSmall` where panels have too few values in common."""
        known = {float(str(value)): line for value, line in sorted(pooled.items(), key=lambda i: str(i[0]))}
        short = self.needs(set(known))
        if short:
            raise TooSmall(short)
        return dict(sorted(known.items()))


class _Anchors(Sweep):
    @property
    def swept(self) -> str:
        return "anchor ratios"

    def values(self, panel: Panel) -> dict[float, str]:
        found = values_of(panel, self.method, "anchor_ratio", self.rho)
        default = DEFAULTS[self.method]["anchor_ratio"]
        return {float(default if value is None else value): text for value, text in found.items()}

    def needs(self, values: set[float]) -> str:
        if {0.0, 0.1} <= values and max(values) > 0.1 and not any(0 < value < 0.1 for value in values):
            return ""
        return f"needs anchor ratios 0, 0.1 and larger ones; measured: {_numbers(values)}"


class LargestStep(_Anchors):
    """Quality gained from anchor ratio 0 to 0.1, less the most gained between other neighbours."""

    kind: Literal["first_anchor_step"]

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        quality = self.checked(pooled)
        steps = [quality[high] - quality[low] for low, high in zip(quality, list(quality)[1:], strict=False)]
        return steps[0] - np.max(steps[1:], axis=0), f"0 to 0.1: {steps[0][0]:+.3f}"


class BestAnchors(_Anchors):
    """Quality at anchor ratio 0.1, minus the best at any other."""

    kind: Literal["best_anchor_ratio"]

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        quality = self.checked(pooled)
        others = [line for ratio, line in quality.items() if ratio != 0.1]
        return quality[0.1] - np.max(others, axis=0), ""


class TopLayers(Sweep):
    """Quality with the top 3 profiled layers, minus the middle between top 1 and the best top k.

    Above 0 where the first three layers have more than half of what layers beyond the first can gain.
    """

    kind: Literal["top3_gain"]

    def values(self, panel: Panel) -> dict[float, str]:
        found = {
            _top(value, self.method): text
            for value, text in _layer_views(panel, self.method, self.rho).items()
        }
        return {number: text for number, text in found.items() if number}

    def needs(self, values: set[float]) -> str:
        if {1.0, 3.0} <= values and max(values) > 3:
            return ""
        return f"needs the top 1, top 3 and more profiled layers; measured: top {_numbers(values)}"

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        quality = self.checked(pooled)
        best = np.max(list(quality.values()), axis=0)
        return quality[3.0] - (quality[1.0] + best) / 2, ""


class LayerPeak(Sweep):
    """The best single layer of the middle half of a model, minus the best of its first and last quarter.

    The middle half is L/4 <= layer < 3L/4; first and final layer and one of the middle half must be there.
    """

    kind: Literal["layer_peak"]
    column: Quality = "evidence_recall"

    def values(self, panel: Panel) -> dict[float, str]:
        views = _layer_views(panel, self.method, self.rho)
        found = {_layer(view, panel.layers): text for view, text in views.items()}
        inner = [layer for layer in found if layer is not None and _inner(layer, panel.layers)]
        if len(found) > 1 and not (inner and {0, panel.layers - 1} <= set(found)):
            raise TooSmall("needs the first, the final and a middle layer, each alone")
        return {layer: text for layer, text in found.items() if layer is not None}

    def needs(self, values: set[float]) -> str:
        return ""  # `values` has looked: a layer's place depends on the panel's model

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        return {"": _peak({float(str(k)): v for k, v in super().parts(panel, lines).items()}, panel.layers)}

    def reduce(self, pooled: Lines) -> tuple[Floats, str]:
        return pooled[""], ""


class OverlapPeak(Measure):
    """Share of the all-layer top 10 % of positions that a layer finds alone: best layer of the middle half,
    minus the best of the first and last quarter."""

    kind: Literal["layer_overlap_peak"]
    of: Named
    form: ClassVar[Form] = "{:+.3f}"
    scored: ClassVar[bool] = False

    def wanted(self, panel: Panel) -> dict[Hashable, Series]:
        key = next(iter(at(panel, self.of).values()))
        columns = [name for name in panel.rows if str(name).startswith("layer_overlap_")]
        if not columns:
            raise Missing(f"no rows of {self.of} tell each layer's overlap with all layers")
        return {int(str(name).rsplit("_", 1)[1]): Series(key, str(name)) for name in columns}

    def parts(self, panel: Panel, lines: Lines) -> dict[Hashable, Floats]:
        known = {float(str(layer)): line for layer, line in lines.items()}
        return {"": _peak(known, len(known))}


def _peak(by_layer: dict[float, Floats], layers: int) -> Floats:
    inner = [line for layer, line in by_layer.items() if _inner(layer, layers)]
    outer = [line for layer, line in by_layer.items() if not _inner(layer, layers)]
    peak: Floats = np.max(inner, axis=0) - np.max(outer, axis=0)
    return peak


def _inner(layer: float, layers: int) -> bool:
    return layers / 4 <= layer < 3 * layers / 4


def _layer_views(panel: Panel, method: str, rho: float | None) -> dict[str, str]:
    found = values_of(panel, method, "layers", rho)
    return {str(view or f"top-{DEFAULTS[method]['layers']}"): text for view, text in found.items()}


def _top(view: str, method: str) -> float:
    match = re.fullmatch(r"top-(\d+)", view)
    return float(match[1]) if match else 0.0


def _layer(view: str, layers: int) -> float | None:
    named: dict[str, Any] = {"first": 0, "middle": layers // 2, "final": layers - 1}
    match = re.fullmatch(r"layer-(\d+)", view)
    place = int(match[1]) if match else named.get(view)
    return None if place is None else float(place)


def _numbers(values: set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))
