"""String match as RULER computes it for retrieval and variable tracking."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.metrics.f1 import check_references, normalise


def postprocess(prediction: str) -> str:
    """Strip, turn every control character into a newline, strip again.

    NVIDIA/RULER, scripts/eval/evaluate.py, `postprocess_pred`.
    """
    return re.sub(r"[\x00-\x1f]", "\n", prediction.strip()).strip()


def string_match_all(prediction: str, references: Sequence[str]) -> float:
    """Share of the references found in the prediction, ignoring case, in [0, 1].

    NVIDIA/RULER, scripts/eval/synthetic/constants.py, `string_match_all` (times 100 there), for
    one prediction. A reference counts as a substring: there are no word boundaries. Raises as
    `check_references`.
    """
    check_references(references)
    text = postprocess(prediction).lower()
    return sum(r.lower() in text for r in references) / len(references)


def string_match_normalised(prediction: str, references: Sequence[str]) -> float:
    """Share of the references whose words stand in a row in the prediction's, in [0, 1].

    Ours, beside RULER's: both sides go through `bench.metrics.f1.normalise`, and whole words count, so
    "1,234,567" is found and "12345678" is not 1234567. A reference of which nothing is left is not found.
    Raises as `check_references`.
    """
    check_references(references)
    said = f" {' '.join(normalise(postprocess(prediction)))} "
    wanted = [" ".join(normalise(r)) for r in references]
    return sum(bool(w) and f" {w} " in said for w in wanted) / len(wanted)
