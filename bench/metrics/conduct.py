"""What a prediction looks like besides its score: how long, empty, an echo, hedged, quoting its instruction.

A summary counts these over a dataset's rows. Empty answers and echoes score like wrong or right ones, an
echo can satisfy a substring match (NVIDIA/RULER, issue 54), and so can an answer that gives every number in
sight. None of these is a metric of a paper; they are ours, beside the scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.metrics.f1 import check_references

ECHO_WORDS = 12
"""Words in a row, shared with the prompt, from which on a prediction is an echo. Answers asked for here
(a name, a date, five variables, four numbers with their keys) do not quote as much in one piece."""

_WORD = re.compile(r"\w+")
_LISTING = re.compile(r"^\s*\d{1,2}[.)](?=\s)", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|\d+")
_NAME_LETTERS = 3


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


def number_precision(prediction: str, references: Sequence[str]) -> float | None:
    """Share of the distinct numbers in the prediction that are references, in [0, 1].

    None where any reference is not a whole number (digits, commas between thousands allowed). 0.0 where
    the prediction gives no number: left out of a mean, silence would look precise. Runs of digits are
    numbers, whole ones (8 digits are not the 7 in them); the numbering of a list ("1. ") is none. A last
    number cut off by the limit of new tokens counts as a wrong one: `Row.stopped` tells. Against an
    answer with all of the context's numbers in it, whose string match is 1. Raises as
    `bench.metrics.f1.check_references`.
    """
    check_references(references)
    wanted = {_digits(r.strip()) for r in references}
    if not all(re.fullmatch(r"\d+", number, re.ASCII) for number in wanted):
        return None
    given = {_digits(number) for number in _NUMBER.findall(_LISTING.sub(" ", prediction))}
    return len(given & wanted) / len(given) if given else 0.0


def _digits(number: str) -> str:
    return number.replace(",", "") if _NUMBER.fullmatch(number) else number


def quotes_instruction(prediction: str, instruction: str, rest: str, references: Sequence[str]) -> bool:
    """Whether the prediction holds a name or number of the instruction that stands nowhere else.

    `instruction` is the text of S, `rest` that of context, query and answer prefix. Such a word was copied
    out of S: out of a solved example, since an instruction names nothing that could be an answer otherwise.
    Words are runs of letters, digits and underscores, compared as written; names and numbers among them
    are those of three characters or more with a digit in them, all in capitals, or with a capital inside a
    sentence and never without it. So a template's own words ("Memorize", "chain") are none. Words that
    `rest` or a reference holds do not count.
    """
    known = set(_WORD.findall(rest)).union(*(_WORD.findall(r) for r in references))
    return not (_names(instruction) - known).isdisjoint(_WORD.findall(prediction))


def _names(text: str) -> set[str]:
    every = set(_WORD.findall(text))
    found = {w for w in every if any(c.isdigit() for c in w) or w.isupper()}
    inside = (m[1] for m in re.finditer(r"(?<=[\w,;]) +(\w+)", text))
    found |= {w for w in inside if w[0].isupper() and w.lower() not in every}
    return {w for w in found if len(w) >= _NAME_LETTERS}


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
