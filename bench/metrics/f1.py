"""Token F1 as LongBench computes it for its question-answering tasks."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = frozenset(string.punctuation)


def normalise(text: str) -> list[str]:
    """Lower-case, delete ASCII punctuation, drop English articles; return the words.

    THUDM/LongBench, LongBench/metrics.py, `normalize_answer`. A hyphen is deleted, not
    replaced by a space; punctuation outside ASCII (curly quotes) stays.
    """
    kept = "".join(c for c in text.lower() if c not in _PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def check_references(references: Sequence[str]) -> None:
    """Raise TypeError where the references are one string (its characters would be scored against:
    NVIDIA/RULER, issue 30) and ValueError where there are none."""
    if isinstance(references, str):
        raise TypeError("references must be a sequence of strings, not one string")
    if not references:
        raise ValueError("no references to score against")


def f1(prediction: str, references: Sequence[str]) -> float:
    """Best token F1 of the prediction against any reference, in [0, 1].

    THUDM/LongBench, LongBench/metrics.py (`qa_f1_score`) and eval.py (max over the answers).
    Nothing is stripped or cut from the prediction beforehand; no common word scores 0, two
    empty texts included (SQuAD's F1 gives 1 there). Raises as `check_references`.
    """
    check_references(references)
    return max(_pair(normalise(prediction), normalise(r)) for r in references)


def f1_hotpotqa(prediction: str, references: Sequence[str]) -> float:
    """`f1` with HotpotQA's rule: where either text is yes, no or noanswer, only the same words score.

    hotpotqa/hotpot, hotpot_evaluate_v1.py (`f1_score`); Alab-NII/2wikimultihop scores so too, with the
    best of all aliases. Raises as `check_references`.
    """
    check_references(references)
    return max(_strict(normalise(prediction), normalise(r)) for r in references)


_CLOSED = (["yes"], ["no"], ["noanswer"])


def _strict(prediction: list[str], reference: list[str]) -> float:
    if prediction != reference and (prediction in _CLOSED or reference in _CLOSED):
        return 0.0
    return _pair(prediction, reference)


def _pair(prediction: list[str], reference: list[str]) -> float:
    common = sum((Counter(prediction) & Counter(reference)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(prediction), common / len(reference)
    return 2 * precision * recall / (precision + recall)
