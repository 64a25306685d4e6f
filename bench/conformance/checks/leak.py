"""Causality: what a recomputed row may know."""

from __future__ import annotations

from dataclasses import replace

import torch

from bench.conformance.outcome import Broken, Known, Skipped
from bench.conformance.stand import Run, Stand
from bench.conformance.watch import Watch
from bench.method import Request

TOLERANCE = 1e-4
"""Of a layer's largest key or value: rounding stays far below, a leak far above."""
LENGTHS, RATIOS = (40, 40, 40), (0.2, 0.5)
"""Few rows among many keys: there a mask aligned bottom-right reaches far into the future. More rows where
none of the few stands before the last chunk."""


def no_row_sees_the_future(stand: Stand) -> None:
    """With a given selection, fresh keys and values of earlier rows do not change with a later chunk.

    A causal mask aligned bottom-right takes selected rows for the sequence's last ones and lets them
    see later tokens: reported for the released codes of CacheBlend (issue 21) and LMCache (1152). A method
    that asks for this very mask is a known case; one that asks for it and does not get it has failed.
    """
    request = stand.request(LENGTHS)
    *before, last = request.chunks
    top = min(stand.engine.runtime.vocab, 20000)
    other = tuple(3 + (token + 1) % (top - 3) for token in last)
    changed = replace(request, id="changed", chunks=(*before, other))
    skip, end, mask = len(request.prefix), request.chunk_starts[-1], stand.method.mask
    for rho in RATIOS:
        first_run = Watch()
        with stand.setup() as setup:
            here = setup.run(request, rho, first_run)
            there = setup.run(changed, rho, Watch(replay=first_run))
        early = [rows[rows < end] + skip for rows in here.positions]
        if len(early[-1]):
            break
    if not any(map(len, early)):
        raise Skipped("it recomputes nothing before the last chunk")
    for layer, rows in enumerate(early):
        if not len(rows):
            continue
        a, b = here.cache[layer][rows], there.cache[layer][rows]
        off, scale = float((a - b).abs().max()), max(1.0, float(a.abs().max()))
        if off <= TOLERANCE * scale:
            continue
        if mask == "released":
            raise Known("leaks, as its mask is the released one")
        where = "narrow()" if stand.narrows else "mask"
        raise Broken(f"rows of layer {layer} change by {off:.2g} with a later chunk", where)
    if mask == "released" and _reaches(request, here):
        raise Broken("its mask is the released one, and yet no row sees a later chunk", "mask")


def _reaches(request: Request, run: Run) -> bool:
    """Whether a bottom-right aligned mask shows the last chunk to a row before it, one layer from the end."""
    rows, end = run.positions[-2], request.chunk_starts[-1]
    kept = torch.searchsorted(rows, run.positions[-1][run.positions[-1] < end])
    last_seen = len(request.ids) - len(rows) - len(request.query) + kept
    return bool((last_seen >= len(request.prefix) + end).any())
