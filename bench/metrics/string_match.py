"""String match as RULER computes it for retrieval and variable tracking."""

from __future__ import annotations

import re
from collections.abc import Sequence


def postprocess(prediction: str) -> str:
    """Strip, turn every control character into a newline, strip again.

    NVIDIA/RULER, scripts/eval/evaluate.py, `postprocess_pred`.
    """
    return re.sub(r"[\x00-\x1f]", "\n", prediction.strip()).strip()


def string_match_all(prediction: str, references: Sequence[str]) -> float:
    """Share of the references found in the prediction, ignoring case, in [0, 1].

    NVIDIA/RULER, scripts/eval/synthetic/constants.py, `string_match_all` (times 100 there), for
    one prediction. A reference counts as a substring: there are no word boundaries. Raises
    TypeError where `references` is one string (its characters would be matched: RULER issue 30)
    and ValueError where it is empty.
    """
    if isinstance(references, str):
        raise TypeError("references must be a sequence of strings, not one string")
    if not references:
        raise ValueError("no references to score against")
    text = postprocess(prediction).lower()
    return sum(r.lower() in text for r in references) / len(references)
