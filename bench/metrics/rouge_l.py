"""ROUGE-L with stemming: what the code released with the paper calls F1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from bench.metrics.f1 import check_references


@cache
def _scorer() -> Any:
    # Importing it brings NLTK in, which takes a second: not before it is needed.
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

    return RougeScorer(["rougeL"], use_stemmer=True)


def rouge_l(prediction: str, references: Sequence[str]) -> float:
    """Best ROUGE-L F-measure of the prediction against any reference, in [0, 1].

    The code the authors released scores with this (`blend/utils.py`, `scorer_f1`: rouge-score's
    `rougeL`, `use_stemmer=True`, the maximum over the answers), though the paper (section 4.1.5) names
    LongBench's official F1, which is `bench.metrics.f1`. They differ: words are stemmed (Porter),
    articles count, only runs of [a-z0-9] are words, order matters, and a text in another script has no
    words at all. Two texts without words score 0. Raises as `check_references`.
    """
    check_references(references)
    return max(float(_scorer().score(r, prediction)["rougeL"].fmeasure) for r in references)
