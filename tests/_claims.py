"""Synthetic rows in which a claim's measure has a chosen value. Invented numbers, for tests alone."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from bench.claims.file import Claim
from bench.claims.points import Point
from bench.results.schema import Row
from tests._rows import make_row

LAYERS = 24
RHOS = (0.1, 0.3, 0.5)
VIEWS: dict[str, Any] = {"first": [0], "middle": [12], "final": [23], "all": list(range(24)), "top-1": 1}
SWEEP_X = (0.5, 1.0, 2.0, 3.0, 5.0, 11.0)

Build = Callable[[Claim, float, float], list[dict[str, Any]]]
"""Operating points (fields of a row) from claim, value and spread; a field that is a pair (value, spread)
alternates around the value from request to request, so that mean and median are the value."""


def params_of(point: Point) -> dict[str, Any]:
    return {k: VIEWS.get(v, v) if isinstance(v, str) else v for k, v in point.params.items()}


def fields_at(point: Point, **fields: Any) -> list[dict[str, Any]]:
    own = {"full_prefill": (1.0,), "direct_reuse": (0.0,)}
    rhos = point.rho or own.get(point.method, RHOS)
    return [{"method": point.method, "params": params_of(point), "rho": rho} | fields for rho in rhos]


def throttled(multiple: float) -> dict[str, Any]:
    return {"bandwidth": f"{multiple:g}x", "bandwidth_bytes_per_s": multiple * 1e6, "bandwidth_unit": 1e6}


def difference(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    over = [one for point in m.over for one in fields_at(point, **{m.column: 0.5})]
    return fields_at(m.of, **{m.column: (0.5 + value, spread)}) + over


def best_variant_difference(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    points = fields_at(m.of, **{m.column: (0.5 + value, spread)})
    for method in m.over:
        for params, score in (({}, 0.5), ({"variant": "released"}, 0.3)):
            points += [
                one | {"params": params} for one in fields_at(Point(method=method), **{m.column: score})
            ]
    return points


def placed(claim: Claim, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points at the bandwidth that the measure asks for; full prefill reads no cache."""
    m: Any = claim.measure
    store = throttled(11) if isinstance(m.store, tuple) else throttled(0.5) if m.store == "slowest" else {}
    return [one if one["method"] == "full_prefill" else one | store for one in points]


def ratio(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    big = 1000 if m.column == "bytes_before_fusion" else 1.0
    kind = int if m.column == "bytes_before_fusion" else float
    points = fields_at(m.of, **{m.column: (kind(value * big), kind(spread * value * big))})
    points += [one for point in m.over for one in fields_at(point, **{m.column: kind(big)})]
    return placed(claim, points)


def select_share(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    return fields_at(m.of, select_s=(value, spread), ttft_s=1.0, **throttled(11))


def mean(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    return fields_at(m.of, **{m.column: (value, spread)})


def ttft_rises(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    points = fields_at(Point(method="full_prefill"), ttft_s=1.0)
    for at, point in enumerate(m.of):
        step = value if at == 0 else 1.4
        for one, ttft in zip(fields_at(point), (0.2, 0.2 * step, 0.2 * step * 1.4), strict=True):
            noisy = at == 0 and one["rho"] == RHOS[1]
            points.append(one | {"ttft_s": (ttft, spread * ttft) if noisy else ttft})
    return placed(claim, points)


def matched_speedup(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    points = fields_at(Point(method="full_prefill"), ttft_s=1.0, score=0.6)
    base = 1.0
    if m.over.method != "full_prefill":
        points += fields_at(m.over, ttft_s=0.9, score=0.6)
        base = 0.9
    fast, *others = fields_at(m.of, score=0.6)
    points.append(fast | {"ttft_s": (base / value, spread * base / value)})
    return placed(claim, points + [one | {"ttft_s": 2.0} for one in others])


def curve(point: Point, crossing: float, spread: float, unit: float, name: str) -> list[dict[str, Any]]:
    """TTFT over the bandwidth that meets full prefill's 1.0 s at `crossing` multiples of `unit`."""
    found = []
    for at in SWEEP_X:
        ttft = 1 + 0.2 * (log(crossing) - log(at))
        rate = {"bandwidth": f"{at:g}{name}", "bandwidth_bytes_per_s": at * unit, "bandwidth_unit": 1e6}
        found += fields_at(point, ttft_s=(ttft, spread), **rate)
    return found


def crossing(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    unit, name = (1e6, "x") if m.unit == "x" else (1e9, "GB/s")
    return [*fields_at(Point(method="full_prefill"), ttft_s=1.0), *curve(m.of, value, spread, unit, name)]


def crosses_lower(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    ours = {1.0: 1.5, 0.0: 4.5}.get(value, 3.0)
    full = fields_at(Point(method="full_prefill"), ttft_s=1.0)
    return [*full, *curve(m.full_view, 3.0, 0.0, 1e6, "x"), *curve(m.of, ours, spread, 1e6, "x")]


def advantage_growth(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    points = fields_at(Point(method="full_prefill"), ttft_s=1.0)
    points += [one for at in (1, 11) for one in fields_at(m.of, ttft_s=0.5, **throttled(at))]
    points += fields_at(m.over, ttft_s=(0.7 + value, spread), **throttled(1))
    return points + fields_at(m.over, ttft_s=0.7, **throttled(11))


def worst_rate(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    points = []
    for rate, share in ((1.0, 0.5), (2.0, 1.0), (3.0, 0.5)):
        noisy = (share * value, spread if share == 1 else 0.0)
        points += fields_at(m.of, request_rate=rate, ttft_s=noisy)
        points += fields_at(m.over, request_rate=rate, ttft_s=1.0)
    return placed(claim, points)


def _swept(claim: Claim, by_params: list[tuple[dict[str, Any], Any]]) -> list[dict[str, Any]]:
    m: Any = claim.measure
    rhos = (m.rho,) if m.rho else RHOS
    return [
        {"method": m.method, "params": params, "rho": rho, m.column: value}
        for params, value in by_params
        for rho in rhos
    ]


def first_anchor_step(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    zero = ({"anchor_ratio": 0.0}, (0.4, spread))
    return _swept(claim, [zero, ({}, 0.45 + value), ({"anchor_ratio": 0.2}, 0.5 + value)])


def best_anchor_ratio(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    others = [({"anchor_ratio": ratio}, 0.5) for ratio in (0.0, 0.2)]
    return _swept(claim, [({}, (0.5 + value, spread)), *others])


def top3_gain(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    others: list[tuple[dict[str, Any], Any]] = [({"layers": 1}, 0.3), ({"layers": 5}, 0.6)]
    return _swept(claim, [({}, (0.45 + value, spread)), *others])


def layer_peak(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    inner = ({"layers": [14]}, (0.35 + value, spread))
    return _swept(claim, [({"layers": [0]}, 0.3), inner, ({"layers": [23]}, 0.35)])


def layer_overlap_peak(claim: Claim, value: float, spread: float) -> list[dict[str, Any]]:
    m: Any = claim.measure
    return fields_at(m.of, layer_overlap=(0.4 + value, spread))


BUILD: dict[str, tuple[Build, float, float]] = {
    "difference": (difference, 0.15, 0.1),
    "best_variant_difference": (best_variant_difference, 0.15, 0.1),
    "ratio": (ratio, 0.3, 0.04),
    "select_share": (select_share, 0.1, 0.05),
    "mean": (mean, 0.2, 0.1),
    "ttft_rises": (ttft_rises, 0.3, 0.04),
    "matched_speedup": (matched_speedup, 0.4, 0.04),
    "crossing": (crossing, 1.5, 0.02),
    "crosses_lower": (crosses_lower, 1.0, 0.02),
    "advantage_growth": (advantage_growth, 0.2, 0.04),
    "worst_rate": (worst_rate, 0.3, 0.04),
    "first_anchor_step": (first_anchor_step, 0.15, 0.1),
    "best_anchor_ratio": (best_anchor_ratio, 0.15, 0.1),
    "top3_gain": (top3_gain, 0.1, 0.1),
    "layer_peak": (layer_peak, 0.15, 0.1),
    "layer_overlap_peak": (layer_overlap_peak, 0.15, 0.1),
}
"""By measure: how to build it, how far beyond the threshold is clear, and a spread around it."""


def target(claim: Claim, state: str) -> float:
    """The value a claim's measure has where it is true, false or on the threshold."""
    margin = BUILD[claim.measure.kind][1]
    low, high = claim.threshold
    if claim.measure.kind == "crosses_lower":
        return {"true": 1.0, "false": 0.0, "borderline": 0.5}[state]
    if claim.comparison == "between":
        return {"true": (low + high) / 2, "false": high * margin, "borderline": high}[state]
    up = claim.comparison in ("at_least", "above")
    edge = low if up else high
    sign = {"true": 1, "false": -1, "borderline": 0}[state] * (1 if up else -1)
    return edge + sign * margin


def rows_for(claim: Claim, state: str, n: int = 40, **extra: Any) -> list[Row]:
    """Rows of a run in which the claim is "true", "false" or "borderline"; of other methods for "missing"."""
    if state == "missing":
        points = [{"method": "random_tokens", "rho": 0.3}, {"method": "full_prefill", "rho": 1.0}]
    else:
        build, _, spread = BUILD[claim.measure.kind]
        points = build(claim, target(claim, state), spread)
    requires = claim.requires
    names = {"longbench/*": "longbench/musique", "ruler/*": "ruler/mq"}
    dataset = names.get(claim.datasets[0], claim.datasets[0]) if claim.datasets else "ruler/mq"
    model = requires.models[0].replace("*", "-") if requires.models else "model-a"
    shapes = [(requires.chunks * (1 + i), requires.chunk_tokens) for i in range(requires.shapes)]
    rows: list[Row] = []
    for chunks, chunk_tokens in shapes:
        for at in range(n):
            for point in points:
                fields = {key: _alternating(value, at) for key, value in point.items()}
                overlap = fields.pop("layer_overlap", None)
                if overlap is not None:
                    fields["layer_overlap"] = [0.4 if layer in (0, 23) else 0.2 for layer in range(LAYERS)]
                    fields["layer_overlap"][12] = overlap
                shape = {"chunks": chunks, "chunk_tokens": chunk_tokens}
                own = {"model": model, "dataset": dataset, "request": f"r{at:03}"}
                layers = {"positions_recomputed": [10] * LAYERS}
                rows.append(make_row(**(own | shape | layers | fields | extra)))
    return rows


def info_for(claim: Claim) -> dict[str, Any]:
    """A `run.json` with the hardware that the claim asks for."""
    return {"host": {"gpus": [f"NVIDIA {claim.requires.gpu}"] if claim.requires.gpu else []}}


def _alternating(value: Any, at: int) -> Any:
    if not isinstance(value, tuple):
        return value
    middle, spread = value
    return middle + (spread if at % 2 else -spread)
