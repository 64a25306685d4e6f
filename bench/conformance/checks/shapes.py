"""Requests of odd shapes, all of which real data has."""

from __future__ import annotations

import torch

from bench.conformance.outcome import Broken
from bench.conformance.stand import TOLERANCE, Run, Setup, Stand
from bench.method import Request


def _sound(setup: Setup, request: Request, rho: float) -> Run:
    """Run it; the budget holds and the logits are numbers."""
    run, budget = setup.run(request, rho), setup.budget(request, rho)
    if len(run.positions[-1]) != budget:
        raise Broken(f"{len(run.positions[-1])} positions at the last layer, budget {budget}", "select()")
    if not bool(torch.isfinite(run.logits).all()):
        raise Broken("logits are not finite", "select()")
    return run


def one_chunk(stand: Stand) -> None:
    """A single chunk; without an instruction its cache is exact, so that any selection is full prefill.

    An identical prompt that is all hits crashed where somebody needs a rest to compute (LMCache 854).
    """
    request, alone = stand.request((30,)), stand.request((30,), prefix=0)
    with stand.setup() as setup:
        _sound(setup, request, 0.5)
        run = _sound(setup, alone, 0.5)
    off = run.off(stand.full_prefill(alone))
    if stand.method.mask == "exact" and not off <= TOLERANCE:
        raise Broken(f"an exact cache, and logits, keys or values are off by {off:.2g}", "narrow() and mask")


def chunk_of_one_token(stand: Stand) -> None:
    """Chunks of one token, among others and alone: shares, anchors, windows and pools of nothing.

    A window of last tokens, a tenth of the tokens, a maximum over an empty set: all fail here first.
    """
    with stand.setup() as setup:
        for lengths, rho in (((16, 1, 8), 0.5), ((1, 16), 0.5), ((1,), 0.5), ((1,), 1.0), ((1, 1), 0.5)):
            _sound(setup, stand.request(lengths), rho)


def last_chunk_short(stand: Stand) -> None:
    """A last chunk shorter than the others, and chunks of all lengths.

    A text is rarely a multiple of the chunk size; `i * len(chunks[0])` is then past the end of the context.
    """
    with stand.setup() as setup:
        for lengths, rho in (((24, 24, 5), 0.2), ((24, 24, 5), 0.9), ((10, 30, 20), 0.5)):
            _sound(setup, stand.request(lengths), rho)
