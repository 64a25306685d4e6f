"""What a method is given is not its own."""

from __future__ import annotations

from dataclasses import asdict

from bench.conformance.outcome import Broken, Skipped
from bench.conformance.stand import Stand
from bench.conformance.watch import Watch


def tensors_are_left_unchanged(stand: Stand) -> None:
    """No tensor from the view, none of narrow()'s and no profile is written into.

    They are the caches that fusion goes on with: a score made in place (`keys.sub_`, `sort(out=...)`)
    is recomputation nobody asked for, or a cache nobody stored.
    """
    if not stand.method.uses_cache:
        raise Skipped("it is given nothing")
    watch = Watch()
    with stand.setup() as setup:
        before = list(setup.profile)
        setup.run(stand.request(), watch=watch)
        if setup.profile != before:
            raise Broken("it changed view.profile", "select()")
    if watch.written:
        raise Broken(f"it wrote into {', '.join(sorted(set(watch.written)))}", "select() and narrow()")


def request_is_left_unchanged(stand: Stand) -> None:
    """The request after select() is the request before, token ids included.

    All methods and full prefill share one list of ids; where a method re-tokenises or trims it, the others
    are measured on another prompt (released QCFuse builds full prefill's prompt apart; LMCache 1136).
    """
    request, untouched = stand.request(), stand.request()
    ids = list(untouched.ids)
    _ = request.ids, request.sha256
    with stand.setup() as setup:
        setup.run(request)
    if asdict(request) != asdict(untouched) or request.ids != ids:
        raise Broken("it changed the request", "select()")
    if request.sha256 != untouched.sha256 or request.chunk_starts != untouched.chunk_starts:
        raise Broken("it changed what the request remembers of itself", "select()")
