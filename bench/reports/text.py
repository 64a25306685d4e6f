"""Makes foreign text fit to be shown: what would not show, or would turn the line around, is spelled out."""

from __future__ import annotations

import re

# line feed and tab stay; so do U+200C and U+200D, which scripts and emoji need to be written right
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: object) -> str:
    """`text` with control characters, direction overrides and zero-width ones written out: "⟨U+202E⟩".

    What markup means in HTML is left to the template's escaping.
    """
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", str(text).replace("\r\n", "\n"))
