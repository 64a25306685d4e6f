"""Threads on a clock of their own: one runs at a time, sleeping is instant, and runs repeat."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence

from bench.store.throttle import Throttle


class World:
    """Runs workers in the order of their waking. `overslept(i)` seconds are added to the i-th sleep."""

    def __init__(self, overslept: Callable[[int], float] = lambda i: 0.0) -> None:
        self.now = 0.0
        self.log: list[tuple[float, int]] = [(0.0, 0)]
        """(seconds, bytes delivered until then), in order."""
        self._overslept, self._sleeps = overslept, 0
        self._waking: list[tuple[float, int, threading.Semaphore]] = []
        self._order = itertools.count()
        self._turn = threading.Semaphore(0)
        self._mine = threading.local()
        self._errors: list[BaseException] = []

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`, for a worker."""
        self._sleeps += 1
        self._queue(self.now + seconds + self._overslept(self._sleeps), self._mine.semaphore)
        self._turn.release()
        self._mine.semaphore.acquire()

    def spend(self, seconds: float) -> None:
        """Work of a worker that takes exactly so long."""
        if seconds > 0:
            self._queue(self.now + seconds, self._mine.semaphore)
            self._turn.release()
            self._mine.semaphore.acquire()

    def run(self, throttle: Throttle, workers: Sequence[Callable[[], None]]) -> None:
        """Run workers to their end, noting what `throttle` has delivered whenever time may pass."""
        for work in workers:
            semaphore = threading.Semaphore(0)
            self._queue(self.now, semaphore)
            threading.Thread(target=self._work, args=(work, semaphore), daemon=True).start()
        while self._waking:
            self.now, _, semaphore = heapq.heappop(self._waking)
            semaphore.release()
            assert self._turn.acquire(timeout=60)
            if throttle.delivered != self.log[-1][1]:
                self.log.append((self.now, throttle.delivered))
        if self._errors:
            raise self._errors[0]

    def delivered(self, begin: float, end: float) -> int:
        """Bytes delivered after `begin` and until `end`."""
        return self._until(end) - self._until(begin)

    def _until(self, time: float) -> int:
        return max(many for at, many in self.log if at <= time)

    def _queue(self, at: float, semaphore: threading.Semaphore) -> None:
        heapq.heappush(self._waking, (at, next(self._order), semaphore))

    def _work(self, work: Callable[[], None], semaphore: threading.Semaphore) -> None:
        self._mine.semaphore = semaphore
        semaphore.acquire()
        try:
            work()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._turn.release()
