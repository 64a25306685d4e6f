"""The same request again, on the same store and the same instance."""

from __future__ import annotations

import torch

from bench.conformance.outcome import Broken
from bench.conformance.stand import Stand


def idempotent_on_one_store(stand: Stand) -> None:
    """Twice in a row is the same answer to the bit, and no entry of the store has changed.

    Released CacheBlend rotates cached keys in place, so a second run on the same cache rotates them twice
    (xformers.py, `old_kv`); LMCache stored chunks that the first request had contaminated (issue 922).
    """
    request = stand.request()
    with stand.setup() as setup:
        before = setup.stored(request)
        first = setup.run(request)
        between = setup.stored(request)
        second = setup.run(request)
        after = setup.stored(request)
    for old, new in ((before, between), (between, after)):
        changed = [key for key, entry in old.items() if not torch.equal(entry, new[key])]
        if changed:
            raise Broken(f"{len(changed)} entries of the store changed", "prepare(), select() and narrow()")
    if not first.same(second):
        raise Broken("the second answer is another one", "select() and what the instance keeps")


def repeated_request_is_answered_anew(stand: Stand) -> None:
    """A request asked again after another one gets the same answer and reads as many bytes.

    What an instance remembers of one request answers the next, or makes a later TTFT cheaper than the
    first (LMCache issues 854 and 4663: repeated traffic crashed, or hid what novel traffic costs).
    """
    request, other = stand.request(), stand.request(seed=2)
    with stand.setup() as setup:
        first, between, again = (setup.run(r) for r in (request, other, request))
    with stand.setup() as fresh:
        alone = fresh.run(other)
    if not between.same(alone):
        raise Broken("it answers otherwise when another request came before", "what the instance keeps")
    if not first.same(again):
        raise Broken("a request asked again gets another answer", "what the instance keeps")
    for run in (between, again):
        if run.row["bytes_before_fusion"] != first.row["bytes_before_fusion"]:
            read = [r.row["bytes_before_fusion"] for r in (first, run)]
            raise Broken(f"{read[0]} bytes read before fusion, later {read[1]}", "what the instance keeps")
