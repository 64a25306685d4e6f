"""A run over records of mixed length: the paper's shape meets 2wikimqa's short records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from tests._golden import longbench_record

METHODS = "full_prefill,direct_reuse,cacheblend,epic,fusionrag,prophetkv,qcfuse"


def test_records_with_fewer_chunks_are_measured_by_every_method(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    records = []
    for i, words in enumerate((120, 12, 0)):
        record = longbench_record("2wikimqa") | {"_id": str(i)}
        record["context"] += " The river is long." * words
        records.append(json.dumps(record))
    (tmp_path / "2wikimqa.jsonl").write_text("\n".join(records))
    options = {
        "models": tiny("llama"), "datasets": "longbench/2wikimqa", "longbench": tmp_path, "methods": METHODS,
        "rho": "0.3", "requests": 3, "chunks": 6, "chunk-tokens": 64, "dtype": "float32",
        "out": tmp_path / "run", "report": tmp_path / "report",
    }  # fmt: skip
    flags = [str(x) for key, value in options.items() for x in (f"--{key}", value)]
    assert main(["run", "fig10", "--profile", "tiny", *flags]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 3 * 7
    assert {row["status"] for row in rows} == {"ok"}
    lengths = sorted({row["context_tokens"] for row in rows})
    assert len(lengths) == 3
    assert lengths[-1] == 6 * 64
    for row in rows:
        if row["method"] in ("epic", "prophetkv", "qcfuse"):
            assert row["rho_effective"] == pytest.approx(0.3, abs=1 / row["context_tokens"])
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["datasets"]["longbench/2wikimqa"]
    assert facts["requests_short"] == 2
