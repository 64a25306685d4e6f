"""Reads `timelines.jsonl` and picks the timelines of one request that are shown side by side."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.bandwidth import Bandwidth
from bench.errors import UserError
from bench.figures.style import DIRECT_REUSE, order, variant_label
from bench.results.packed import content, kept
from bench.results.points import PREFILLS
from bench.results.timeline import TIMELINES, Record

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """Which timelines: None for the first there is; no methods for all of them."""

    request: str | None = None
    model: str | None = None
    dataset: str | None = None
    methods: Sequence[str] = ()
    bandwidth: str | None = None
    rho: float | None = None


def read_timelines(run: Path) -> list[Record]:
    """As `timelines_of`. Raises `UserError` where there is no file, or no timeline in it."""
    path = kept(run / TIMELINES)
    if path is None:
        raise UserError(
            f"{run / TIMELINES}: no such file; a run writes it where its experiment keeps timelines"
        )
    found = timelines_of(run)
    if not found:
        raise UserError(f"{path}: holds no timeline")
    return found


def timelines_of(run: Path) -> list[Record]:
    """The timelines of a run, in the order they were written; of a cell's request the last one.

    A line that a kill cut short is left out with a warning: its request is measured again.
    """
    path = kept(run / TIMELINES)
    found: dict[tuple[str, str, str, str], Record] = {}
    for number, line in enumerate(content(path).splitlines() if path else [], 1):
        try:
            record = Record.model_validate_json(line)
        except ValidationError:
            log.warning("%s:%d: not a timeline, left out", path, number)
            continue
        found[record.cell, record.model, record.dataset, record.request] = record
    return list(found.values())


def choose(records: Sequence[Record], wanted: Wanted) -> list[Record]:
    """The timelines of one request on one model and dataset, a method each, in the order of every legend.

    One bandwidth and one rho, so that methods can be compared: the slowest and the lowest recorded where
    `wanted` names none. Full prefill and direct reuse have a rho of their own, and full prefill no
    bandwidth: they stay. Raises `UserError` where the request was not recorded or nothing is left.
    """
    some = [r for r in records if wanted.dataset in (None, r.dataset) and wanted.model in (None, r.model)]
    if not some:
        known = sorted({f"{r.model}, {r.dataset}" for r in records})
        raise UserError(f"no timeline of that model and dataset; recorded: {'; '.join(known)}")
    request = some[0].request if wanted.request is None else wanted.request
    known = list(dict.fromkeys(r.request for r in some))
    if request not in known:
        raise UserError(f"request {request!r} was not recorded; recorded: {', '.join(known)}")
    some = [r for r in some if r.request == request]
    # the same request id may stand for several models or datasets
    some = [r for r in some if (r.model, r.dataset) == (some[0].model, some[0].dataset)]
    if wanted.methods:
        names = order(r.method for r in some)
        unknown = [name for name in wanted.methods if name not in names]
        if unknown:
            raise UserError(f"no timeline of {', '.join(unknown)}; recorded: {', '.join(names)}")
        some = [r for r in some if r.method in wanted.methods]
    some = _at(some, wanted)
    ranks = {method: rank for rank, method in enumerate(order(r.method for r in some))}
    return sorted(some, key=lambda r: (ranks[r.method], str(r.params)))


def _at(some: list[Record], wanted: Wanted) -> list[Record]:
    """Those at one bandwidth and one rho."""
    throttled = slowest_first(r.bandwidth for r in some if r.method not in PREFILLS)
    rhos = sorted({r.rho for r in some if r.method not in (*PREFILLS, DIRECT_REUSE)})
    bandwidth = throttled[0] if wanted.bandwidth is None and throttled else wanted.bandwidth
    rho = rhos[0] if wanted.rho is None and rhos else wanted.rho
    if wanted.bandwidth is not None and throttled and bandwidth not in throttled:
        raise UserError(f"no timeline at bandwidth {bandwidth}; recorded: {', '.join(throttled)}")
    if wanted.rho is not None and rhos and rho not in rhos:
        raise UserError(f"no timeline at rho {rho:g}; recorded: {', '.join(f'{r:g}' for r in rhos)}")
    return [
        r
        for r in some
        if (r.method in PREFILLS or r.bandwidth == bandwidth)
        and (r.method in (*PREFILLS, DIRECT_REUSE) or r.rho == rho)
    ]


def slowest_first(bandwidths: Iterable[str]) -> list[str]:
    """Bandwidths by rate, "none" last; relative ones first, since 1x in bytes is not known here."""
    known = {text: Bandwidth.of(text) for text in bandwidths}
    inf = float("inf")
    return sorted(known, key=lambda t: (known[t].relative or inf, known[t].bytes_per_s or inf))


def labels(records: Sequence[Record]) -> list[str]:
    """A name for each timeline: the method's, with its parameters where a method comes several times."""
    counts = Counter(record.method for record in records)
    texts = [",".join(f"{key}={value}" for key, value in record.params.items()) for record in records]
    return [
        variant_label(r.method, f"{r.method}({text})" if counts[r.method] > 1 else r.method)
        for r, text in zip(records, texts, strict=True)
    ]


def title(records: Sequence[Record]) -> str:
    """Model, dataset, request, and the bandwidth and rho that were chosen."""
    first = records[0]
    bandwidths = {r.bandwidth for r in records if r.method not in PREFILLS}
    rhos = {r.rho for r in records if r.method not in (*PREFILLS, DIRECT_REUSE)}
    parts = [first.model.rsplit("/", 1)[-1], first.dataset, f"request {first.request}"]
    parts += [f"ρ = {rho:g}" for rho in sorted(rhos)]
    parts += ["store not throttled" if text == "none" else f"store at {text}" for text in sorted(bandwidths)]
    return ", ".join(parts)
