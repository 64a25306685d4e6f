"""How a claim names operating points, and which of a panel's points those are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bench.claims.panel import Key, Panel, canonical
from bench.results.points import FULL_PREFILL

Store = Literal["fastest", "slowest"] | tuple[float, float]
"""Which of a panel's bandwidths: its fastest ("none" before any throttle), its slowest throttle, or the one
between two multiples of 1x."""


class Missing(Exception):
    """A panel has no rows of what a measure needs; the message says of what."""


class TooSmall(Exception):
    """A panel has rows, but not enough points for a measure; the message says what is short."""


class Point(BaseModel):
    """A method with parameters at one or several recomputation ratios; a text is a method as it is.

    `rho` None: full prefill and direct reuse have one of their own; of any other method every ratio between
    0 and 1 that all methods of the comparison were measured at. Parameters not named have their defaults.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    rho: tuple[float, ...] | None = Field(default=None, min_length=1)
    params: dict[str, Any] = {}

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.method}({shown})" if shown else self.method


Named = Annotated[
    Point, BeforeValidator(lambda given: {"method": given} if isinstance(given, str) else given)
]


def at(panel: Panel, point: Point, store: Store = "fastest") -> dict[float, Key]:
    """The keys of a point by ratio, at one bandwidth, requests one at a time. Raises `Missing`."""
    (keys,) = at_all(panel, [point], store)
    return keys


def at_all(panel: Panel, points: Sequence[Point], store: Store = "fastest") -> list[dict[float, Key]]:
    """The keys of several points by ratio, all at the same bandwidth: of those that `store` allows, the first
    at which all were measured. Raises `Missing`."""
    for point in points:
        _check(panel, point)
    if all(point.method == FULL_PREFILL for point in points):
        return [_keys(panel, point, "") for point in points]
    lacks: list[Missing] = []
    for bandwidth in bandwidths_of(panel, store):
        try:
            return [_keys(panel, point, bandwidth) for point in points]
        except Missing as lack:
            lacks.append(lack)
    raise lacks[0]


def _check(panel: Panel, point: Point) -> None:
    params = canonical(point.method, point.params, panel.layers)
    for key in panel.broken:
        if key[:2] == (point.method, params) and key.rate is None and key.rho in (point.rho or (key.rho,)):
            raise TooSmall(f"{panel.dataset}: every row of {point} at ρ {key.rho:g} failed")
    measured = {key.rho for key in panel.keys if key[:2] == (point.method, params) and key.rate is None}
    lacking = sorted(set(point.rho or ()) - measured)
    if lacking or not measured:
        raise Missing(f"no measured rows of {point}" + (f" at ρ {lacking[0]:g}" if lacking else ""))


def _keys(panel: Panel, point: Point, bandwidth: str) -> dict[float, Key]:
    params = canonical(point.method, point.params, panel.layers)
    place = "" if point.method == FULL_PREFILL else bandwidth
    keys = {
        key.rho: key
        for key in panel.keys
        if (key.method, key.params, key.bandwidth, key.rate) == (point.method, params, place, None)
    }
    wanted = point.rho or sorted(keys)
    if not keys or not set(wanted) <= set(keys):
        raise Missing(f"no measured rows of {point} with the store at {bandwidth}")
    return {rho: keys[rho] for rho in wanted}


def side_by_side(panel: Panel, points: Sequence[Point], store: Store = "fastest") -> list[dict[float, Key]]:
    """The keys of several points by ratio; those without ratios of their own have the same ones.

    Raises `Missing` where a point, or a ratio common to all of them, was not measured.
    """
    found = at_all(panel, points, store)
    sweeps = [
        set(keys)
        for point, keys in zip(points, found, strict=True)
        if not point.rho and set(keys) - {0.0, 1.0}
    ]
    if not sweeps:
        return found
    common = sorted(set.intersection(*sweeps) - {0.0, 1.0})
    if not common:
        raise Missing(f"{' and '.join(map(str, points))} have no ρ in common")
    return [
        {rho: keys[rho] for rho in common} if not point.rho and set(keys) - {0.0, 1.0} else keys
        for point, keys in zip(points, found, strict=True)
    ]


def values_of(panel: Panel, method: str, param: str, rho: float | None) -> dict[Any, str]:
    """The values of one parameter that a panel has, all others at their defaults: canonical params by value.

    A number as it is; of `layers` the name of its view ("top-1", "final", "layer-7"); None for the default.
    Raises `TooSmall` where every row of a value failed, at `rho` or, without it, at any ratio.
    """
    for key in panel.broken:
        if key.method == method and set(json.loads(key.params)) <= {param} and rho in (None, key.rho):
            raise TooSmall(f"{panel.dataset}: every row of {method}{key.params} at ρ {key.rho:g} failed")
    found = {}
    for key in panel.keys:
        params = json.loads(key.params)
        if key.method == method and set(params) <= {param}:
            found[params.get(param)] = key.params
    return found


def chosen_bandwidth(panel: Panel, store: Store) -> str:
    """The name of one bandwidth, the first of `bandwidths_of`. Raises as that does."""
    return bandwidths_of(panel, store)[0]


def bandwidths_of(panel: Panel, store: Store) -> list[str]:
    """The names of the bandwidths that `store` allows, the preferred one first, never none.

    "fastest" allows every one, the fastest preferred. Raises `Missing` without rows, or without rows in the
    range; `TooSmall` where "slowest" finds no throttle.
    """
    rates = panel.bandwidths
    if not rates:
        raise Missing("no measured rows of a cache-fusion method")
    if store == "fastest":
        return list(rates)[::-1]
    throttled = panel.multiples
    if store == "slowest":
        if not throttled:
            raise TooSmall("the store was not throttled")
        return list(throttled)[:1]
    low, high = store
    inside = [name for name, multiple in throttled.items() if low <= multiple <= high]
    if not inside:
        has = ", ".join(f"{multiple:.3g}x" for multiple in throttled.values()) or "no throttle"
        raise Missing(f"no data at that storage: needs the store at {low:g}x to {high:g}x; measured: {has}")
    return inside
