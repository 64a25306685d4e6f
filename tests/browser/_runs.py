"""Runs for tests of the page: synthetic rows with prompts, selections and timelines beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bench.results.schema import Row
from bench.results.shown import LayerPositions, Prompt, Selection
from tests._rows import grid, write_run
from tests._timelines import full_prefill, fused, record, write_timelines

METHODS = ("cacheblend", "prophetkv", "qcfuse")
INFO: dict[str, Any] = {
    "experiment": "fig10",
    "profile": "tiny",
    "datasets": {"multihop": {"note": "LongBench-format, not LongBench"}},
    "sessions": [{"began": "2026-01-01T00:00:00Z", "command": ["run", "fig10", "--profile", "tiny"]}],
}
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'> \"'&amp; ]]> </script> <!-- "
    "\x1b[31mred\x1b[0m [red] {{ 7 * 7 }} \u202eevil\u202c \u200bzero\u2028line "
    "\u05e9\u05dc\u05d5\u05dd e\u0301\u0327 " + "w" * 10_000
)
LAYERS = 4
TOKENS = 24
CHUNKS = [0, 8, 16]
EVIDENCE = [9, 10]
SELECTED = {
    ("qcfuse", 0.1): "1,9",
    ("qcfuse", 0.3): "0-2,9-10,20",
    ("prophetkv", 0.1): "3",
    ("prophetkv", 0.3): "1-2,5,16-18",
}
"""Context positions, the same at every layer; CacheBlend narrows (`_layers`)."""


def shown_run(folder: Path, text: str = "", n: int = 4) -> Path:
    """Three methods at two ratios on two datasets; `text` is every answer and a token of every context."""
    rows = grid(datasets=("multihop", "ruler/mq"), rhos=(0.1, 0.3), n=n, methods=METHODS)
    rows = [
        row.model_copy(
            update={
                "cell": f"{row.method}-{row.rho}-{row.dataset}",
                "prediction": text or f"{row.method} says {row.request} at {row.rho}",
                "references": [text or "the answer", "another"],
            }
        )
        for row in rows
    ]
    write_run(rows, folder, INFO)
    first = [row for row in rows if row.request in ("r0", "r1")]
    _write(folder / "prompts.jsonl", [_prompt(*key, text) for key in sorted({_unit(row) for row in first})])
    _write(folder / "selections.jsonl", [_selection(row) for row in first])
    write_timelines([_timeline(row) for row in first], folder)
    return folder


def _unit(row: Row) -> tuple[str, str, str]:
    return row.model, row.dataset, row.request


def _which(row: Row) -> dict[str, Any]:
    names = ("cell", "model", "dataset", "method", "params", "rho", "bandwidth", "request")
    return {name: getattr(row, name) for name in names}


def _prompt(model: str, dataset: str, request: str, text: str) -> Prompt:
    context = [f" {request}t{number}" for number in range(TOKENS)]
    context[4] = text or context[4]
    return Prompt(
        model=model, dataset=dataset, request=request, instruction=["Read", " this."], context=context,
        query=["What", " is", " it?", text], chunk_starts=CHUNKS, evidence=EVIDENCE,
        references=[text or "the answer", "another"],
    )  # fmt: skip


def _layers(method: str, rho: float) -> list[LayerPositions]:
    if method == "cacheblend":
        return [
            LayerPositions(first=0, last=1, positions=f"0-{TOKENS - 1}"),
            LayerPositions(first=2, last=LAYERS - 1, positions="8-11"),
        ]
    all_of = {"full_prefill": f"0-{TOKENS - 1}", "direct_reuse": ""}
    return [
        LayerPositions(
            first=0, last=LAYERS - 1, positions=all_of.get(method) or SELECTED.get((method, rho), "")
        )
    ]


def _selection(row: Row) -> Selection:
    return Selection(**_which(row), layers=_layers(row.method, row.rho))


def _timeline(row: Row) -> Any:
    timeline = full_prefill() if row.method == "full_prefill" else fused(LAYERS)
    return record(**(_which(row) | {"timeline": timeline}))


def _write(path: Path, lines: Sequence[BaseModel]) -> None:
    path.write_text("".join(one.model_dump_json() + "\n" for one in lines), "utf-8")


def data_of(page: Path) -> dict[str, Any]:
    """The data inside a page."""
    text = page.read_text("utf-8")
    begin = text.index(">", text.index('<script type="application/json"')) + 1
    found: dict[str, Any] = json.loads(text[begin : text.index("</script>", begin)])
    return found
