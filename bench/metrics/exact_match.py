"""Exact match, as written and normalised."""

from __future__ import annotations

from collections.abc import Sequence

from bench.metrics.f1 import check_references, normalise


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the prediction, without white space at its ends, is a reference to the letter, else 0.0.

    Raises as `check_references`.
    """
    check_references(references)
    return float(prediction.strip() in {r.strip() for r in references})


def exact_match_normalised(prediction: str, references: Sequence[str]) -> float:
    """1.0 where prediction and a reference are the same words after `bench.metrics.f1.normalise`.

    SQuAD's exact match (rajpurkar/SQuAD-explorer, evaluate-v2.0.py, `compute_exact`), which normalises
    the same way. Two texts of which nothing is left match, as they do there. Raises as
    `check_references`.
    """
    check_references(references)
    words = normalise(prediction)
    return float(any(words == normalise(r) for r in references))
