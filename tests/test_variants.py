"""The table of variants: pooling, pairing, and where a ranking turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench.errors import UserError
from bench.results import report_variants
from bench.results.reader import read_rows, read_run_info
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
            some = point(scores, np.ones(n), dataset=dataset, method=method, params=params, rho=rho)
            # as in real runs, another dataset's requests have other names
            found += [row.model_copy(update={"request": f"{dataset[-2:]}-{row.request}"}) for row in some]
    return found


def test_scores_are_pooled_over_datasets_and_paired(tmp_path: Path) -> None:
    (full, paper, changed, qcfuse, control), left_out = variant_lines(frame_of(rows(0.8), tmp_path), INFO)
    assert not left_out
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
    lines, _ = variant_lines(frame_of(rows(0.5), tmp_path), INFO)
    assert not any(line.overtakes for line in lines)
    assert report_variants.changes(lines) == ["No variant changes the ranking of the methods."]


def test_only_requests_that_all_have_count(tmp_path: Path) -> None:
    some = [row for row in rows(0.8) if not (row.params and row.request.endswith("-r0"))]
    lines, left_out = variant_lines(frame_of(some, tmp_path), INFO)
    assert [line.score.n for line in lines] == [38] * 5
    assert not left_out


def test_what_was_measured_on_one_dataset_alone_is_left_out_and_named(tmp_path: Path) -> None:
    some = [row for row in rows(0.8) if not (row.method == "random_tokens" and row.dataset == "ruler/mv")]
    lines, left_out = variant_lines(frame_of(some, tmp_path), INFO)
    assert [line.method for line in lines] == ["full_prefill", "epic", "epic", "qcfuse"]
    assert lines[0].score.n == 40, "the requests stay"
    assert left_out == ["random_tokens: measured on 0% of ruler/mv, left out"]


@pytest.mark.parametrize("seed", range(20))
def test_equal_means_are_no_change_of_rank(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    thirds, made = draw.integers(0, 4, 12) / 3, []
    for method, params in (("epic", {}), ("epic", {"tokens": 32}), ("qcfuse", {})):
        made += point(draw.permutation(thirds), np.ones(12), method=method, params=params, rho=0.3)
    assert not any(line.overtakes for line in variant_lines(frame_of(made, tmp_path), INFO)[0])


def test_one_request_a_dataset_has_no_interval(tmp_path: Path) -> None:
    lines, _ = variant_lines(frame_of(rows(0.8, n=1), tmp_path), INFO)
    assert np.isnan(lines[0].score.low)


def test_a_run_without_one_common_request_is_one_line(tmp_path: Path) -> None:
    run = write_run(
        [row.model_copy(update={"status": "failed"}) for row in rows(0.8)], tmp_path / "run", INFO
    )
    folder = RunFolder(run, read_rows(run), INFO)
    with pytest.raises(UserError, match="no request was measured"):
        report_variants.write(folder, tmp_path / "out", Console())


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
