"""Fill a context up to a token count by adding whole units."""

from __future__ import annotations

from collections.abc import Callable


def most_units(tokens: Callable[[int], int], limit: int, least: int, guess: int) -> int | None:
    """Return the largest number of units n >= least with tokens(n) <= limit.

    `tokens(n)` is the length of a context of n units and grows with n, save for ripples of a
    token or two where a tokenizer merges across an edge. None where even `least` is too long.
    Doubling steps from `guess` bracket the answer, then the bracket is halved, so the number of
    calls is logarithmic and the search ends whatever `tokens` answers.
    """
    if tokens(least) > limit:
        return None
    low, high, step = least, max(guess, least + 1), 1
    if tokens(high) > limit:
        while high - step > low and tokens(high - step) > limit:
            high, step = high - step, step * 2
        low = max(low, high - step)
    else:
        low, high = high, high + 1
        while tokens(high) <= limit:
            step *= 2
            low, high = high, high + step
            if step > 1 << 20:
                raise ValueError(f"a context of {low} units has at most {limit} tokens: they count as none")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tokens(middle) <= limit else (low, middle)
    return low
