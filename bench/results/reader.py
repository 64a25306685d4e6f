"""Reads a finished run's folder: `rows.jsonl` or `rows.jsonl.gz` into a frame, `run.json`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from bench.errors import UserError
from bench.results.packed import content, kept
from bench.results.schema import SCHEMA_VERSION, Row

log = logging.getLogger(__name__)

ROWS = "rows.jsonl"


def rows_file(run: Path) -> Path:
    """The file that holds a run's rows, plain or compressed. Raises `UserError` where there is none."""
    path = kept(run / ROWS)
    if path is None:
        raise UserError(f"{run / ROWS}: no such file; give the folder of a run, the one that holds {ROWS}")
    return path


def read_rows(run: Path) -> pd.DataFrame:
    """Read the rows of a run, one line of the frame a row, every field of `Row` a column.

    Each line is validated through `Row`. `params` becomes canonical JSON text (sorted keys), so
    that lines can be grouped by it. A last line that a crash cut short (no line end, not JSON) is
    left out, logged as a warning and kept as its line number in `frame.attrs["torn_line"]`.

    Raises `UserError` where the file is missing, a line is malformed, or its schema version is
    not `SCHEMA_VERSION`.
    """
    path = rows_file(run)
    lines = content(path).split(b"\n")
    records: list[dict[str, Any]] = []
    torn: int | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(_record(line))
        except ValidationError as error:
            # split() leaves text after the last line end only where that line end is missing
            if number == len(lines) and error.errors()[0]["type"] == "json_invalid":
                torn = number
                log.warning("%s:%d: the last line is torn (cut short) and was left out", path, number)
                continue
            raise UserError(f"{path}:{number}: not a row: {_first(error)}") from error
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from error
    frame = pd.DataFrame(records, columns=list(Row.model_fields))
    frame.attrs["torn_line"] = torn
    return _numeric(frame)


def read_run_info(run: Path) -> dict[str, Any]:
    """Read `run.json`; an empty dictionary where the run has none.

    Raises `UserError` where the file is not a JSON object.
    """
    path = run / "run.json"
    if not path.is_file():
        return {}
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    if not isinstance(info, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(info).__name__}")
    return info


def _record(line: bytes) -> dict[str, Any]:
    row = Row.model_validate_json(line)
    if row.schema_version != SCHEMA_VERSION:
        raise ValueError(f"schema version {row.schema_version}, this harness reads {SCHEMA_VERSION}")
    record = row.model_dump()
    record["params"] = json.dumps(row.params, sort_keys=True)
    return record


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _numeric(frame: pd.DataFrame) -> pd.DataFrame:
    # a column of None alone would stay of type object and break means
    numbers = [
        "rho",
        "rho_effective",
        "score",
        "evidence_recall",
        "new_tokens",
        "context_tokens",
        "ttft_s",
        "select_s",
    ]
    numbers += ["select_wait_s", "bandwidth_bytes_per_s", "bandwidth_unit"]
    numbers += ["request_rate", "attention_top10", "needle_recall", "precision"]
    numbers += ["load_s", "recompute_s", "first_token_s", "bytes_before_fusion", "bytes_total"]
    frame[numbers] = frame[numbers].astype("float64")
    return frame
