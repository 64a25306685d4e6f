"""The reader: validated rows, a torn last line reported, everything else one clear error."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.results.reader import read_rows, read_run_info
from tests._rows import make_row, write_run


def test_reads_every_field_and_params_as_canonical_json(tmp_path: Path) -> None:
    write_run([make_row(params={"b": 1, "a": 2}), make_row(request="r1", score=None)], tmp_path)
    frame = read_rows(tmp_path)
    assert len(frame) == 2
    assert frame["params"].iloc[0] == '{"a": 2, "b": 1}'
    assert frame["score"].dtype == "float64"
    assert frame.attrs["torn_line"] is None


def test_torn_last_line_is_reported_not_fatal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_run([make_row()], tmp_path)
    path = tmp_path / "rows.jsonl"
    # cut inside a two-byte character, as a full disk would
    path.write_bytes(path.read_bytes() + '{"cell": "é'.encode()[:-1])
    with caplog.at_level(logging.WARNING):
        frame = read_rows(tmp_path)
    assert len(frame) == 1
    assert frame.attrs["torn_line"] == 2
    assert "rows.jsonl:2" in caplog.text


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"cell": \n{row}\n', "rows.jsonl:1: not a row"),
        ("{row}\n{}\n", "rows.jsonl:2: not a row: cell"),
        ("{row}\n{broken\n", "rows.jsonl:2: not a row"),
        ("{row}\n{}", "rows.jsonl:2: not a row"),
        ("{other}\n", "rows.jsonl:1: schema version 99"),
    ],
)
def test_malformed_line_names_file_and_line(tmp_path: Path, text: str, where: str) -> None:
    row, other = make_row().model_dump_json(), make_row(schema_version=99).model_dump_json()
    (tmp_path / "rows.jsonl").write_text(text.replace("{row}", row).replace("{other}", other))
    with pytest.raises(UserError, match=where):
        read_rows(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_rows(tmp_path)


def test_empty_run_has_the_columns(tmp_path: Path) -> None:
    assert "ttft_s" in read_rows(write_run([], tmp_path)).columns


def test_run_info(tmp_path: Path) -> None:
    assert read_run_info(tmp_path) == {}
    write_run([], tmp_path, {"profile": "tiny"})
    assert read_run_info(tmp_path) == {"profile": "tiny"}
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(UserError, match="JSON object"):
        read_run_info(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_run_info(tmp_path)


def test_packed_rows_read_the_same(tmp_path: Path) -> None:
    write_run([make_row(), make_row(request="r1")], tmp_path)
    plain = read_rows(tmp_path)
    rows = tmp_path / "rows.jsonl"
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(rows.read_bytes()))
    rows.unlink()
    assert read_rows(tmp_path).equals(plain)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b"no" + b[2:], lambda b: b[:40] + b"??" + b[42:]]
)
def test_damaged_packed_rows_are_one_clear_line(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    rows = write_run([make_row()], tmp_path) / "rows.jsonl"
    (tmp_path / "rows.jsonl.gz").write_bytes(damage(gzip.compress(rows.read_bytes())))
    rows.unlink()
    with pytest.raises(UserError, match=r"rows\.jsonl\.gz: damaged"):
        read_rows(tmp_path)
