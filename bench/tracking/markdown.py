"""Text of rows in a report's Markdown: it shows as it is written, whatever is in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

LONGEST = 200
"""Characters of one text; what is longer is cut, with an ellipsis."""


def literal(text: str) -> str:
    """Markdown that shows `visible(text)` itself: no markup, HTML, link or line break of it takes effect."""
    # an entity is no markup in any dialect of Markdown; a backslash is in some
    return re.sub(r"[^\w .,:;()/%+=ρ×…-]|_", lambda match: f"&#{ord(match[0])};", visible(text))


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table of literal texts."""
    rows = [header, ["---"] * len(header)]
    out = ["| " + " | ".join(rows[1] if row is rows[1] else [literal(c) for c in row]) + " |" for row in rows]
    out += ["| " + " | ".join(literal(cell) for cell in line) + " |" for line in lines]
    return "\n".join(out)


def visible(text: str) -> str:
    """At most `LONGEST` characters of `text`, nothing of it invisible.

    Control and format characters (ANSI's escape, changes of direction, zero width) are shown by their code
    point, "<U+001B>".
    """
    cut = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return "".join(f"<U+{ord(s):04X}>" if unicodedata.category(s) in hidden else s for s in cut)
