"""Metrics: one score in [0, 1] for one prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.metrics.f1 import f1
from bench.metrics.string_match import string_match_all


@dataclass(frozen=True)
class Metric:
    """A metric: its name in rows, its label on figures, its function of one prediction."""

    name: str
    label: str
    score: Callable[[str, Sequence[str]], float]
    """score(prediction, references), in [0, 1], higher is better."""


METRICS: dict[str, Metric] = {
    m.name: m for m in (Metric("f1", "F1", f1), Metric("string_match", "SM", string_match_all))
}
