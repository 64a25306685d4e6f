"""The same chunks in another order are another request."""

from __future__ import annotations

from dataclasses import replace

from bench.conformance.outcome import Broken
from bench.conformance.stand import Stand


def permuted_chunks_get_their_own_answer(stand: Stand) -> None:
    """With its chunks permuted, a request gets the answer that a fresh store and instance give.

    Chunk caches are shared by order-free content; an answer, a score or a selection that is kept under the
    same key is the old order's (contaminated chunks in LMCache, issue 922).
    """
    request = stand.request()
    a, b, c = request.chunks
    permuted = replace(request, chunks=(c, a, b))
    with stand.setup() as setup:
        old = setup.run(request)
        shared = setup.run(permuted)
    with stand.setup() as setup:
        fresh = setup.run(permuted)
    if not shared.same(fresh):
        raise Broken("after another order of the chunks it answers otherwise", "what the instance keeps")
    if shared.same(old):
        raise Broken("both orders of the chunks get one answer", "select()")
