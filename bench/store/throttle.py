"""A slower device than the one at hand: bandwidth shared by all readers, and a latency for each read."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from bench.store.buffers import PAGE

CREDIT_S = 0.008
"""How far a late delivery (an overslept sleep, a slow read) may be made good. Also the longest burst."""
SLICE_S = 0.004
"""Large reads are delivered in slices of about this long, so that any window holds the rate. Each costs a
processor that also computes a tenth of a millisecond."""


class Throttle:
    """Delivers bytes at a rate, from any number of threads; one schedule for all of them.

    Each slice of a read is given the next free span of the schedule, and is delivered when both the real
    read and its span have ended: the real read's own time is part of the span, never added to it. Bandwidth
    is shared; latencies of different reads overlap. Idle time earns nothing. Only lateness does, up to
    `CREDIT_S`. In a window of w seconds at most bytes_per_s * (w + CREDIT_S) and one slice a thread are
    delivered, and bytes_per_s * w less a slice while there is demand and the device keeps up.

    bytes_per_s: bytes a second, > 0. latency_s: seconds before a read's first byte, >= 0. clock and sleep:
    seconds, as in `time`.
    """

    def __init__(
        self, bytes_per_s: float, latency_s: float = 0.0,
        clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        if not bytes_per_s > 0 or not latency_s >= 0:
            raise ValueError(
                f"a throttle needs a rate above 0 and a latency of 0 or more, not {bytes_per_s}, {latency_s}"
            )
        self.bytes_per_s, self.latency_s = bytes_per_s, latency_s
        self.slice_bytes = max(PAGE, int(bytes_per_s * SLICE_S) // PAGE * PAGE)
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._free_at = clock()  # when the span given last ends
        self._late = 0.0  # seconds by which the last delivery missed its span's end
        self._delivered = 0

    @property
    def delivered(self) -> int:
        """Bytes delivered so far, padding included."""
        return self._delivered

    def deliver(self, size: int, read: Callable[[int, int], None]) -> None:
        """One read of `size` bytes: calls read(offset, length) for each slice, in order.

        Returns when the last is due. What `read` raises passes through.
        """
        with self._lock:
            # Who was woken late asks late: without the oversleep it would have asked this much earlier.
            ready = self._clock() - self._late + self.latency_s
        # equal slices, and no small rest: a tenth more in each is cheaper than one more
        pieces = max(1, math.ceil(size / self.slice_bytes - 0.1))
        step = max(1, -(-size // (pieces * PAGE))) * PAGE
        for offset in range(0, size, step):
            length = min(step, size - offset)
            if offset == 0 and self.latency_s:
                read(offset, length)  # the real read is part of the latency
                self._wait_until(ready)
                due = self._next_span(ready, length)
            else:
                due = self._next_span(ready, length)
                read(offset, length)
            self._wait_until(due)
            self._done(length)

    def _next_span(self, ready: float, length: int) -> float:
        """Give a slice the next free span; its end."""
        with self._lock:
            start = max(self._free_at, ready, self._clock() - CREDIT_S)
            self._free_at = start + length / self.bytes_per_s
            self._late = 0.0
            return self._free_at

    def _wait_until(self, due: float) -> None:
        while (left := due - self._clock()) > 0:
            self._sleep(left)

    def _done(self, length: int) -> None:
        with self._lock:
            self._delivered += length
            self._late = min(max(self._clock() - self._free_at, 0.0), CREDIT_S)
