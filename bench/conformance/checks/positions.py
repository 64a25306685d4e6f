"""Which positions a selection may name."""

from __future__ import annotations

import torch

from bench.conformance.outcome import Broken
from bench.conformance.stand import USUAL, Stand
from bench.conformance.watch import Watch


def positions_are_valid(stand: Stand) -> None:
    """Inside the context, each once, sorted once the harness has them; later layers keep some of them.

    A position named twice counts twice in a budget and is computed once; one past the context is the
    query's, or the next request's memory (released CacheBlend lets query tokens compete in its top-k).
    """
    for lengths in (USUAL, (7, 13, 2)):
        request, watch = stand.request(lengths), Watch()
        with stand.setup() as setup:
            run = setup.run(request, watch=watch)
        n, before = request.context_tokens, torch.arange(request.context_tokens)
        for layer, rows in enumerate(run.positions):
            if len(rows) and (int(rows[0]) < 0 or int(rows[-1]) >= n):
                raise Broken(f"layer {layer} recomputes positions outside 0..{n - 1}", "select()")
            if not bool((rows.diff() > 0).all()):
                raise Broken(f"layer {layer} recomputes positions twice or out of order", "select()")
            if not bool(torch.isin(rows, before).all()):
                raise Broken(f"layer {layer} recomputes positions that layer {layer - 1} left", "narrow()")
            before = rows
        for call in watch.narrowed:
            if call.kept is None:
                continue
            if not bool(torch.isin(call.kept, call.given).all()):
                raise Broken(f"at layer {call.layer} it keeps positions it was not given", "narrow()")
            if len(set(call.kept.tolist())) != len(call.kept):
                raise Broken(f"at layer {call.layer} it keeps a position twice", "narrow()")
