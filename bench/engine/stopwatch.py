"""Stamps on the device's own time line, so that reading the time does not stop the device."""

from __future__ import annotations

import time
from typing import Any

import torch


class Stopwatch:
    """Takes stamps while work is being queued, and tells afterwards when the device came past them.

    On a CPU a stamp is `time.perf_counter()`; on a GPU an event in the current stream, told on the
    same clock: seconds since the stopwatch was made, on an idle device, added to that reading.
    """

    def __init__(self, device: str) -> None:
        self.began = time.perf_counter()
        self._events: list[Any] | None = None
        self._times: list[float] = []
        if device == "cuda":
            torch.cuda.synchronize()
            self.began = time.perf_counter()
            self._events = []
            self._base = self._event()

    def _event(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def stamp(self) -> None:
        """Take the next stamp."""
        if self._events is None:
            self._times.append(time.perf_counter())
        else:
            self._events.append(self._event())

    def read(self) -> list[float]:
        """All stamps, in order, as readings of `time.perf_counter()` in seconds; waits for the device."""
        if self._events is None:
            return self._times
        torch.cuda.synchronize()
        return [self.began + self._base.elapsed_time(event) / 1e3 for event in self._events]
