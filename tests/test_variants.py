"""The table of variants: pooling, pairing, and where a ranking turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench.results import report_variants
from bench.results.reader import read_run_info
from bench.results.run_folder import RunFolder
from bench.results.schema import Row
from bench.results.variants import variant_lines
from tests._rows import frame_of, point, write_run

INFO: dict[str, Any] = {
    "experiment": "faithfulness",
    "sweep": {
        "rho": [0.3],
        "methods": ["full_prefill", "epic", "epic[tokens=32]", "qcfuse", "random_tokens"],
    },
    "methods": [
        {"name": "full_prefill", "params": {}}, {"name": "epic", "params": {}},
        {"name": "epic", "params": {"tokens": 32}}, {"name": "qcfuse", "params": {}},
        {"name": "random_tokens", "params": {}},
    ],
}  # fmt: skip


def rows(own: float, n: int = 20) -> list[Row]:
    """EPIC at 0.6 by its rule, at `own` with 32 tokens, QCFuse at 0.7; a request is worth 0 or 1."""
    found = []
    for dataset, shift in (("ruler/mq", 0.0), ("ruler/mv", 0.1)):
        for method, params, rho, score in (
            ("full_prefill", {}, 1.0, 0.9), ("epic", {}, 0.3, 0.6), ("epic", {"tokens": 32}, 0.25, own),
            ("qcfuse", {}, 0.3, 0.7), ("random_tokens", {}, 0.3, 0.1),
        ):  # fmt: skip
            scores = (np.arange(n) < round((score + shift) * n)).astype(float)
            found += point(scores, np.ones(n), dataset=dataset, method=method, params=params, rho=rho)
    return found


def test_scores_are_pooled_over_datasets_and_paired(tmp_path: Path) -> None:
    full, paper, changed, qcfuse, control = variant_lines(frame_of(rows(0.8), tmp_path), INFO)
    assert [full.method, paper.method, changed.method, qcfuse.method] == [
        "full_prefill", "epic", "epic", "qcfuse",
    ]  # fmt: skip
    assert (paper.variant, changed.variant) == ("", "tokens=32")
    assert paper.score.value == pytest.approx(0.65)
    assert paper.score.n == 40
    assert changed.change is not None
    assert changed.change.value == pytest.approx(0.2)
    assert 0 < changed.change.low < 0.2 < changed.change.high
    assert paper.change is None
    assert set(changed.overtakes) == {"qcfuse"}, "not the control, nor full prefill"
    assert changed.overtakes["qcfuse"].value == pytest.approx(0.1)
    assert not any(line.overtakes for line in (paper, qcfuse, control))


def test_a_variant_that_stays_behind_overtakes_nobody(tmp_path: Path) -> None:
    lines = variant_lines(frame_of(rows(0.5), tmp_path), INFO)
    assert not any(line.overtakes for line in lines)
    assert report_variants.changes(lines) == ["No variant changes the ranking of the methods."]


def test_only_requests_that_all_have_count(tmp_path: Path) -> None:
    some = [row for row in rows(0.8) if not (row.params and row.request == "r0")]
    assert all(line.score.n == 38 for line in variant_lines(frame_of(some, tmp_path), INFO))


def test_page_and_table(tmp_path: Path) -> None:
    run = write_run(rows(0.8), tmp_path / "run", INFO)
    folder = RunFolder(run, frame_of(rows(0.8), run), read_run_info(run))
    console = Console(width=140, record=True)
    page, summary = report_variants.write(folder, tmp_path / "out", console)
    text = page.read_text()
    assert "| EPIC | tokens=32 | 0.850 [" in text
    assert "- EPIC with tokens=32 is above QCFuse (difference +0.100 [" in text
    assert "by the paper's rule it is not" in console.export_text()
    assert summary.exists()
