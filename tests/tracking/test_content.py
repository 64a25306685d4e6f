"""What rows become, before W&B sees any of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UserError
from bench.results.schema import SCHEMA_VERSION
from bench.results.summary import summarise
from bench.tracking.content import read_content
from tests._rows import make_row, write_run
from tests.tracking.conftest import IDENTITY, Make, info_of, rows_of_run


def test_a_cell_is_a_run_and_a_request_is_a_step(make: Make) -> None:
    content = read_content(make())
    assert [cell.id for cell in content.cells] == [f"{n:016x}" for n in range(3)]
    rows = [row for row in rows_of_run() if row.cell == content.cells[1].id]
    for step, row in zip(content.cells[1].steps, rows, strict=True):
        assert step["F1"] == row.score
        for name in (
            "request",
            "ttft_s",
            "select_s",
            "load_s",
            "recompute_s",
            "first_token_s",
            "bytes_total",
        ):
            assert step[name] == getattr(row, name)
        assert (step["rho"], step["prediction"], step["references"]) == (0.1, "an answer", ["it", "them"])


def test_the_summary_is_the_points_line(make: Make) -> None:
    content = read_content(make())
    line = summarise(content.run.frame).query("method == 'qcfuse' and rho == 0.3").iloc[0]
    held = content.cells[2].summary
    for name in ("score", "score_low", "score_high", "ttft_s", "ttft_low_s", "speedup", "speedup_high", "n"):
        assert held[name] == line[name]
    assert (held["F1"], held["F1_low"]) == (line["score"], line["score_low"])
    config = content.cells[2].config
    assert (config["method"], config["rho"], config["identity"]) == ("qcfuse", 0.3, IDENTITY)
    assert (config["model_revision"], config["dataset_note"], config["seed"]) == ("r1", "a note", 0)


def test_what_is_not_known_is_left_out(make: Make) -> None:
    bad = make_row(status="failed", error="boom", score=None, ttft_s=None, method="qcfuse", cell="b" * 16)
    (cell,) = read_content(make([bad])).cells
    assert cell.steps[0]["error"] == "boom"
    assert not {"F1", "ttft_s", "prediction"} & set(cell.steps[0])
    assert "score" not in cell.summary
    assert cell.summary["n_failed"] == 1
    json.dumps([cell.steps, cell.summary, cell.config], allow_nan=False)


def test_compressing_the_rows_changes_nothing(make: Make) -> None:
    run = make()
    before, rows = read_content(run).folder, run / "rows.jsonl"
    rows.with_name("rows.jsonl.gz").write_bytes(gzip.compress(rows.read_bytes()))
    rows.unlink()
    assert read_content(run).folder == before


def test_predicted_rows_say_so(make: Make) -> None:
    (cell,) = read_content(make([make_row(predicted=True)])).cells
    assert cell.config["predicted"] is True
    assert cell.name.startswith("PREDICTED ")


def test_the_digest_follows_the_content(make: Make) -> None:
    rows = rows_of_run()
    before = read_content(make(rows))
    assert read_content(make(rows, "again")).digest == before.digest
    rows[-1] = rows[-1].model_copy(update={"prediction": "another answer"})
    after = read_content(make(rows, "other"))
    same = [a.digest == b.digest for a, b in zip(before.cells, after.cells, strict=True)]
    assert same == [True, True, False]
    assert after.folder.digest != before.folder.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"models": {"other": {}}}, "foreign rows: model 'model-a' is not in its run.json"),
        ({"datasets": {"other": {}}}, "foreign rows: dataset 'multihop' is not in its run.json"),
        ({"methods": [{"name": "epic"}]}, "foreign rows: method 'full_prefill' is not in its run.json"),
        ({"methods": "?"}, "run.json: names no method"),
        ({"identity": None}, "run.json: missing, or names no identity"),
        ({"identity": "' or '1' = '1"}, "run.json: missing, or names no identity"),
    ],
)
def test_rows_that_are_not_this_runs(make: Make, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_content(make(**change))


def test_a_cell_without_a_key(make: Make) -> None:
    with pytest.raises(UserError, match=r"foreign rows: '\\x1b\[31m/' is no key of a cell"):
        read_content(make([make_row(cell="\x1b[31m/")]))


def test_two_points_under_one_cell(make: Make) -> None:
    rows = [make_row(rho=0.1), make_row(rho=0.3)]
    with pytest.raises(UserError, match="2 operating points share cell 0000000000000000"):
        read_content(make(rows))


def test_a_folder_with_something_missing(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rows\.jsonl: no such file"):
        read_content(tmp_path)
    with pytest.raises(UserError, match=r"run\.json: missing"):
        read_content(write_run(rows_of_run(), tmp_path / "bare"))
    with pytest.raises(UserError, match="holds no row"):
        read_content(write_run([], tmp_path / "empty", info_of(rows_of_run())))
    newer = make([make_row(schema_version=SCHEMA_VERSION + 1)], "newer")
    with pytest.raises(
        UserError, match=f"schema version {SCHEMA_VERSION + 1}, this harness reads {SCHEMA_VERSION}"
    ):
        read_content(newer)
    field = make([make_row()], "field")
    (field / "rows.jsonl").write_text('{"schema_version": 1, "colour": "red"}\n')
    with pytest.raises(UserError, match=r"rows\.jsonl:1: not a row"):
        read_content(field)
