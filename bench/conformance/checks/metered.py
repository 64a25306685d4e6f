"""What a selector looks at is paid for."""

from __future__ import annotations

from typing import Any

from bench.conformance.outcome import Broken, Skipped
from bench.conformance.spy import SpyStore
from bench.conformance.stand import Stand
from bench.conformance.watch import Watch


def nothing_is_read_around_the_view(stand: Stand) -> None:
    """A spying store sees no more bytes than the view has counted, before fusion and to the end; and the
    method uses nothing of the view but what `bench.method.View` has.

    What is looked at before fusion is what QCFuse's comparison is about (section 3.2.2). A method that
    reads the store around its view, or runs the engine itself, gets for nothing what others pay for.
    """
    if not stand.method.uses_cache:
        raise Skipped("it reads no cache")
    spy, seen = SpyStore(), {}

    def begins(_: Any) -> None:
        spy.bytes_read = 0

    def ended(view: Any) -> None:
        seen["read"], seen["counted"] = spy.bytes_read, view.reader.bytes_read

    watch = Watch(select_begins=begins, select_ended=ended)
    with stand.setup(spy) as setup:
        run = setup.run(stand.request(), watch=watch)
        total = spy.bytes_read
    if seen["read"] > seen["counted"]:
        raise Broken(f"{seen['read']} bytes read before fusion, {seen['counted']} counted", "select()")
    if total > run.row["bytes_total"]:
        raise Broken(f"{total} bytes read in all, {run.row['bytes_total']} counted", "narrow()")
    if watch.foreign:
        names = ", ".join(f"view.{name}" for name in sorted(watch.foreign))
        raise Broken(f"it uses {names}, which bench.method.View does not have", "select()")
