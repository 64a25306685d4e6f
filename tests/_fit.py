"""A `Fit` without a tokenizer: a token is a word with the white space before it."""

from __future__ import annotations

import re

from bench.dataset import Fit


def word_fit(tokens: int) -> Fit:
    """Count, cut and tail in words."""

    def words(text: str) -> list[str]:
        return re.findall(r"\s*\S+", text)

    return Fit(
        tokens=tokens,
        count=lambda text: len(words(text)),
        cut=lambda text, n: "".join(words(text)[:n]),
        tail=lambda text, n: "".join(words(text)[-n:]) if n else "",
    )
