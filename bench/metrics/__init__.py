"""Metrics: one score in [0, 1] for one prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.metrics.exact_match import exact_match, exact_match_normalised
from bench.metrics.f1 import f1, f1_hotpotqa
from bench.metrics.rouge_l import rouge_l
from bench.metrics.string_match import string_match_all, string_match_normalised


@dataclass(frozen=True)
class Metric:
    """A metric: its name in rows, its label on figures, its function of one prediction."""

    name: str
    label: str
    score: Callable[[str, Sequence[str]], float]
    """score(prediction, references), in [0, 1], higher is better."""


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("f1", "F1", f1),
        Metric("f1_hotpotqa", "F1 (yes and no exact)", f1_hotpotqa),
        Metric("string_match", "SM", string_match_all),
        Metric("rouge_l", "ROUGE-L (released F1)", rouge_l),
        Metric("exact_match", "EM, as written", exact_match),
        Metric("exact_match_normalised", "EM", exact_match_normalised),
        Metric("string_match_normalised", "SM, whole words", string_match_normalised),
    )
}


def all_scores(prediction: str, references: Sequence[str]) -> dict[str, float]:
    """One prediction's score by every metric, by name: rows keep what a summary needs to score anew."""
    return {name: metric.score(prediction, references) for name, metric in METRICS.items()}
