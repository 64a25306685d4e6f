"""Questions whose answers are marked in their paragraph, and where a string occurs in a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import UserError

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SpanRecord:
    """A question about one paragraph.

    `spans` are the annotated answers in `context`: (begin, end) characters, end exclusive, sorted, each
    once. `answers` are the annotated strings, each once.
    """

    id: str
    title: str
    context: str
    question: str
    answers: tuple[str, ...]
    spans: Spans


def occurrences(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """(begin, end) of every occurrence of a string, overlapping ones too; none of an empty string."""
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + 1)


def all_occurrences(record: SpanRecord) -> Spans:
    """The annotated spans and every other place in the paragraph where an answer's string stands."""
    found = {span for answer in record.answers for span in occurrences(record.context, answer)}
    return tuple(sorted(found | set(record.spans)))


def trimmed(text: str, begin: int, end: int, where: str) -> tuple[int, int]:
    """A span without white space at its ends. Raises `UserError` where it is not in the text or blank."""
    if not 0 <= begin < end <= len(text):
        raise UserError(f"{where}: span ({begin}, {end}) is not in the paragraph of {len(text)} characters")
    inside = text[begin:end]
    if not inside.strip():
        raise UserError(f"{where}: span ({begin}, {end}) holds white space alone")
    left = len(inside) - len(inside.lstrip())
    return begin + left, begin + len(inside.rstrip())
