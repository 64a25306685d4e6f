"""What stays of a context that is too long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.dataset import Fit

_PASSAGE = re.compile(r"(?:^|\n)(?=Passage \d+:\n)")


def keep_first(context: str, fit: Fit) -> str:
    """Its first `fit.tokens` tokens."""
    return fit.cut(context, fit.tokens)


def middle(context: str, fit: Fit) -> str:
    """Its first and its last half of `fit.tokens`, the middle left out.

    THUDM/LongBench, LongBench/pred.py, cuts the filled prompt this way; here it is the context alone.
    """
    half = fit.tokens // 2
    first = fit.cut(context, half)
    for last in range(half, 0, -1):  # the seam may split a merge and cost a token or two
        kept = first + fit.tail(context, last)
        if fit.count(kept) <= fit.tokens:
            return kept
    return first


def gold_preserving(context: str, fit: Fit, answers: Sequence[str]) -> str:
    """`keep_first`, save where that loses every answer the context has: then the answer's passage stays.

    The passage ("Passage k:", LongBench's layout) with the first occurrence of an answer is put behind
    as much of the beginning as still fits. A passage longer than half of `fit.tokens` gives the half
    that ends with the answer. No rule of LongBench's or of the paper's: it looks at the answer, so it
    shows what a better retriever would have kept, and nothing else.
    """
    kept = keep_first(context, fit)
    begins = [(context.find(a), a) for a in answers if a and a in context]
    if not begins or any(a in kept for a in answers if a):
        return kept
    at, answer = min(begins)
    edges = [m.start() for m in _PASSAGE.finditer(context)]
    begin = max((e for e in edges if e <= at), default=0)
    end = min((e for e in edges if e > at), default=len(context))
    passage = context[begin:end]
    half = fit.tokens // 2
    if fit.count(passage) > half:
        passage = fit.tail(context[begin : at + len(answer)], half)
        begin = at + len(answer) - len(passage)
    room = fit.tokens - fit.count(passage)
    for first in range(room, 0, -1):  # the seam may cost a token or two here as well
        whole = fit.cut(context[:begin], first) + passage
        if fit.count(whole) <= fit.tokens:
            return whole
    return passage


POLICIES = ("keep-first", "middle", "gold-preserving")


def truncate(context: str, fit: Fit, policy: str, answers: Sequence[str]) -> str:
    """A context that is too long, cut by one of `POLICIES` to at most `fit.tokens` tokens."""
    if policy == "gold-preserving":
        return gold_preserving(context, fit, answers)
    return {"keep-first": keep_first, "middle": middle}[policy](context, fit)
