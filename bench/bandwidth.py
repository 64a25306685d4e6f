"""Storage bandwidth as an operating point: in bytes a second, or relative to what the model needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Bandwidth:
    """A throttle: "none" (as fast as the tier is), a rate such as "250MB/s", or "1.5x".

    1x is the bandwidth at which loading a request's whole cache takes as long as its full prefill:
    whole-cache bytes / full-prefill seconds. On that axis a slow machine and a fast one can be compared
    (docs/metrics.md, Relative bandwidth).
    """

    text: str
    bytes_per_s: float | None = None
    relative: float | None = None

    @staticmethod
    def of(text: str) -> Bandwidth:
        """Read a value. Raises `ValueError` where it is none."""
        text = text.strip()
        if text == "none":
            return Bandwidth(text)
        rate = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)\s*([KMG]?)B/s", text)
        if rate and float(rate[1]) > 0:
            return Bandwidth(text, bytes_per_s=float(rate[1]) * _UNITS[rate[2]])
        share = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)x", text)
        if share and float(share[1]) > 0:
            return Bandwidth(text, relative=float(share[1]))
        raise ValueError(
            f'a bandwidth is "none", a rate such as "250MB/s" or a ratio such as "1.5x", not {text!r}'
        )

    def resolve(self, unit: float | None) -> float | None:
        """Bytes a second, `unit` being those of 1x; None for no throttle."""
        if self.relative is None:
            return self.bytes_per_s
        if unit is None:
            raise ValueError(f"{self.text}: 1x is not known")
        return self.relative * unit
