"""How far RULER's requests share chunks, and how many needles an edge cuts, at the paper's shape.

    python -m tests._sharing

measures again (minutes) and writes `tests/golden/sharing.json`, where the table of RULER's card is from.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from bench.assets.models import resolve
from bench.data.requests import build_requests
from bench.request import Request

FILE = Path(__file__).parent / "golden" / "sharing.json"
MODEL, CHUNKS, CHUNK_TOKENS, SAMPLES, SEED, FIRST = "smollm2-135m", 20, 512, 50, 0, 3
ROWS = (("single", "random"), ("mq", "random"), ("mv", "random"), ("vt", "random"), ("mq", "zero"))
KEPT = ("chunks_total", "chunks_distinct", "chunks_recurring", "needles", "needles_straddling")


def made(task: str, offset: str, n: int) -> tuple[list[Request], dict[str, Any]]:
    """The first n requests of a row and their provenance."""
    tokenizer = AutoTokenizer.from_pretrained(resolve(MODEL).path)
    options = {"haystack_offset": offset}
    return build_requests(f"ruler/{task}", tokenizer, CHUNKS, CHUNK_TOKENS, n, SEED, options)


def digest(requests: list[Request]) -> str:
    """One hash of several requests' token ids."""
    return hashlib.sha256("".join(r.sha256 for r in requests).encode()).hexdigest()


def measure(task: str, offset: str) -> dict[str, Any]:
    """A row of the file; `first` is the hash of the first few requests, for a quick test."""
    requests, facts = made(task, offset, SAMPLES)
    return {
        "task": task,
        "haystack_offset": offset,
        **{name: facts[name] for name in KEPT},
        "first": digest(requests[:FIRST]),
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as the card shows them."""
    return [
        f"| {r['task']}{', zero' if r['haystack_offset'] == 'zero' else ''} "
        f"| {r['chunks_distinct']} | {100 * r['chunks_recurring']:.1f} % "
        f"| {r['needles_straddling']} of {r['needles']} |"
        for r in rows
    ]


if __name__ == "__main__":
    found = [measure(*row) for row in ROWS]
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))
