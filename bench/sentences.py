"""A text as words and sentences, from which pieces of any word count can be cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

import punkt


class Prose:
    """A long text, split into words at white space and into sentences by Punkt, once.

    Punkt (English model, `punkt.sent_tokenize`) decides on a sentence's end by the next word
    alone, so the sentences of the first n words are those of the whole text up to there; only
    the last, cut at word n, is split anew.
    """

    def __init__(self, text: str) -> None:
        words = text.split()
        if not words:
            raise ValueError("a text without words")
        self._text = " ".join(words)
        self._begins, self._ends, at = [], [], 0
        for word in words:
            self._begins.append(at)
            self._ends.append(at + len(word))
            at += len(word) + 1
        self._sentences: list[tuple[int, int]] = []
        at = 0
        for sentence in punkt.sent_tokenize(self._text):
            at = self._text.index(sentence, at)
            self._sentences.append((at, at + len(sentence)))
            at += len(sentence)
        self._sentence_begins = [begin for begin, _ in self._sentences]

    @property
    def text(self) -> str:
        """The words, joined by single spaces."""
        return self._text

    def starts(self) -> list[int]:
        """Word numbers at which a sentence begins."""
        known = set(self._begins)
        return [bisect_right(self._begins, b) - 1 for b in self._sentence_begins if b in known]

    def sentences(self, first: int, words: int) -> list[str]:
        """Sentences of `words` words from word number `first` on; the text repeats for ever.

        The last sentence ends where the words do.
        """
        found: list[str] = []
        while words > 0:
            taken = min(words, len(self._begins) - first)
            begin, end = self._begins[first], self._ends[first + taken - 1]
            at = bisect_right(self._sentence_begins, begin) - 1
            while at < len(self._sentences) and self._sentences[at][0] < end:
                lo, hi = self._sentences[at]
                found.append(self._text[max(lo, begin) : min(hi, end)])
                at += 1
            words, first = words - taken, 0
        return [*found[:-1], *punkt.sent_tokenize(found[-1])] if found else []


def enclosing(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(begin, end) characters of the sentences that share a character with any of the spans, in order.

    Sentences are Punkt's, without the white space between them.
    """
    found, at = [], 0
    for sentence in punkt.sent_tokenize(text):
        begin = text.index(sentence, at)
        at = begin + len(sentence)
        found.append((begin, at))
    wanted = list(spans)
    return [(b, e) for b, e in found if any(begin < e and b < end for begin, end in wanted)]


@lru_cache(maxsize=2)
def prose(text: str) -> Prose:
    """`Prose(text)`, kept: splitting a long text takes tenths of a second."""
    return Prose(text)
