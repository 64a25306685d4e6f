"""What a prediction looks like besides its score: how long, empty, or an echo of its prompt.

A summary counts these over a dataset's rows. Empty answers and echoes score like wrong or right ones, and
an echo can satisfy a substring match (NVIDIA/RULER, issue 54).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ECHO_WORDS = 12
"""Words in a row, shared with the prompt, from which on a prediction is an echo. Answers asked for here
(a name, a date, five variables, four numbers with their keys) do not quote as much in one piece."""

_WORD = re.compile(r"\w+")


def count_tokens(prediction: str, encode: Callable[[str], Sequence[int]]) -> int:
    """Tokens of a prediction by a tokenizer's `encode`, which must add no special tokens."""
    return len(encode(prediction))


def is_empty(prediction: str) -> bool:
    """Whether nothing but white space and control characters was said."""
    return not re.sub(r"[\x00-\x1f\x7f]", "", prediction).strip()


def is_echo(prediction: str, prompt: str, words: int = ECHO_WORDS) -> bool:
    """Whether the prediction repeats `words` words of the prompt in a row.

    Words are runs of letters, digits and underscores, in lower case, so a difference in white space or
    punctuation hides nothing. `prompt` is any part of it: context, query, or all of it. A prediction of
    fewer words than that echoes where all of it, five words at least, is the prompt's last words (the
    question said again).
    """
    said = _WORD.findall(prediction.lower())
    given = f" {' '.join(_WORD.findall(prompt.lower()))} "
    if len(said) >= words:
        runs = (said[i : i + words] for i in range(len(said) - words + 1))
        return any(f" {' '.join(run)} " in given for run in runs)
    return len(said) >= 5 and given.endswith(f" {' '.join(said)} ")


@dataclass(frozen=True)
class Conduct:
    """Counts over predictions: how many, how many empty, how many echoes, and mean tokens of one."""

    predictions: int
    empty: int
    echoes: int
    tokens_mean: float


def conduct(pairs: Sequence[tuple[str, str]], encode: Callable[[str], Sequence[int]]) -> Conduct:
    """Count over (prediction, prompt) pairs. Raises ValueError where there are none."""
    if not pairs:
        raise ValueError("no predictions to count")
    return Conduct(
        predictions=len(pairs),
        empty=sum(is_empty(said) for said, _ in pairs),
        echoes=sum(is_echo(said, prompt) for said, prompt in pairs),
        tokens_mean=sum(count_tokens(said, encode) for said, _ in pairs) / len(pairs),
    )
