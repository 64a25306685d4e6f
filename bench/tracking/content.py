"""What a run's rows become in W&B, with nothing of W&B in it: plain values, one mirrored run a cell."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.results.conditions import conditions, distrust, disturbed_share
from bench.results.packed import content
from bench.results.points import PANEL, PARTS, POINT, WAITS, dataset_notes, family
from bench.results.reader import ROWS, rows_file
from bench.results.report import open_run
from bench.results.run_folder import RunFolder
from bench.results.summary import COLUMNS, summarise

NAME_LENGTH = 128
"""The longest display name that W&B takes."""
DIGEST, ROWS_DIGEST = "mirror_sha256", "rows_sha256"
"""Keys of a mirrored run's own hashes: of its content, in the summary; of its steps, in the config."""
FOLDER = "folder"
"""What stands for a cell's panel in the run for the folder."""
KEY = re.compile(r"[0-9A-Za-z]{1,64}")
"""What may be an id in W&B and stand in a filter as it is: keys of cells and run folders are hex digits."""
_STEP = [
    "request", "status", "error", "prediction", "ttft_s", *PARTS, *WAITS,
    "bytes_before_fusion", "bytes_total", "rho", "rho_effective", "evidence_recall",
    "needle_recall", "new_tokens", "empty", "echo", "stopped", "precision", "quotes_instruction", "disturbed",
    "times_taken",
]  # fmt: skip


@dataclass(frozen=True)
class Mirrored:
    """One run as W&B shall hold it.

    `steps` are its history, one a request in the order of the rows; `summary` is what holds for all of
    them. Values that are not known are left out, so none is None or NaN.
    """

    id: str
    name: str
    kind: str
    config: dict[str, Any]
    steps: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def rows_digest(self) -> str:
        """SHA-256 of the steps: W&B adds to a history, and cannot take it back."""
        return hashlib.sha256(json.dumps(self.steps, sort_keys=True).encode()).hexdigest()

    @property
    def digest(self) -> str:
        """SHA-256 of everything above: equal digests, equal runs."""
        parts = [self.id, self.name, self.kind, self.config, self.steps, self.summary]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Content:
    """A run folder's content for W&B: one mirrored run a cell, and what stands in the run for the folder."""

    run: RunFolder
    identity: str
    """What the run folder is called by: the hash of its cells and requests, from `run.json`."""
    summary: pd.DataFrame
    """`bench.results.summary.summarise` of the rows."""
    cells: list[Mirrored]
    folder: Mirrored

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256("".join(m.digest for m in [*self.cells, self.folder]).encode()).hexdigest()


def read_content(path: Path) -> Content:
    """Read a finished run's folder.

    Raises `UserError` where rows or `run.json` are missing, malformed or of another schema, where the
    folder holds no row, or rows that are not this run's: of a model, dataset or method that `run.json` does
    not name, or of several operating points under one cell.
    """
    run = open_run(path)
    frame, info = run.frame, run.info
    identity = info.get("identity")
    if not isinstance(identity, str) or not KEY.fullmatch(identity):
        raise UserError(
            f"{path / 'run.json'}: missing, or names no identity; W&B needs it to find the run again"
        )
    _check_own(frame, info, path)
    summary = summarise(frame)
    lines = {point_of(line): line for line in summary.to_dict("records")}
    shared = _shared_config(info)
    notes = dataset_notes(info)
    cells = []
    for cell, rows in frame.groupby("cell", sort=False):
        if not KEY.fullmatch(str(cell)):
            raise UserError(f"{path}: foreign rows: {ascii(cell)[:80]} is no key of a cell")
        points = rows[POINT].drop_duplicates()
        if len(points) > 1:
            raise UserError(
                f"{path}: rows of {len(points)} operating points share cell {cell}; not one run's rows"
            )
        line = lines[point_of(points.iloc[0].to_dict())]
        cells.append(_cell(str(cell), rows, line, shared, notes))
    folder = _folder(identity, frame, info, path)
    return Content(run, identity, summary, cells, folder)


def point_of(line: Mapping[Any, Any]) -> tuple[Any, ...]:
    """The operating point of a row or of a line of the summary, None where a part of it is not known."""
    return tuple(None if pd.isna(line[key]) else line[key] for key in POINT)


def panel_key(model: str, dataset: str) -> str:
    """A short hash of a model and a dataset: filters of a report find its runs by it, whatever the names."""
    return hashlib.sha256(json.dumps([model, dataset]).encode()).hexdigest()[:8]


def _check_own(frame: pd.DataFrame, info: dict[str, Any], path: Path) -> None:
    methods = info.get("methods")
    named = {
        "model": info.get("models"),
        "dataset": info.get("datasets"),
        "method": [m.get("name") for m in methods if isinstance(m, dict)]
        if isinstance(methods, list)
        else None,
    }
    for column, known in named.items():
        if not known:
            raise UserError(f"{path / 'run.json'}: names no {column}; is it the file of these rows?")
        foreign = sorted(set(frame[column]) - set(known))
        if foreign:
            raise UserError(f"{path}: foreign rows: {column} {ascii(foreign[0])[:80]} is not in its run.json")


def _shared_config(info: dict[str, Any]) -> dict[str, Any]:
    sweep = info.get("sweep") if isinstance(info.get("sweep"), dict) else {}
    assert isinstance(sweep, dict)
    lists = {"models", "datasets", "methods", "rho", "bandwidth", "about"}
    config = {key: value for key, value in sweep.items() if key not in lists}
    config |= {key: info[key] for key in ("experiment", "profile", "identity", "dtype") if key in info}
    return config | {key: info[key] for key in ("git", "host", "versions", "models") if key in info}


def _cell(
    cell: str, rows: pd.DataFrame, line: dict[Any, Any], shared: dict[str, Any], notes: dict[str, str]
) -> Mirrored:
    first = rows.iloc[0]
    model, dataset = str(first["model"]), str(first["dataset"])
    label = family(str(first["metric"]))
    config = {key: value for key, value in shared.items() if key != "models"}
    config |= _known(
        {key: first[key] for key in ("model", "dataset", "metric", "method", "rho", "bandwidth")}
    )
    config |= _known({key: int(first[key]) for key in ("chunks", "chunk_tokens")})
    config |= {"variant": str(line["variant"])}
    if params := json.loads(str(first["params"])):  # the client sends no empty object
        config["params"] = params
    config |= {"cell": cell, "panel": panel_key(model, dataset)}
    models = shared.get("models")
    if isinstance(models, dict) and isinstance(models.get(model), dict):
        config["model_revision"] = models[model].get("revision")
    if dataset in notes:
        config["dataset_note"] = notes[dataset]
    steps = []
    for row in rows.to_dict("records"):
        step = _known({key: row[key] for key in _STEP}) | _known({label: row["score"]})
        steps.append(step | {"references": list(row["references"])})
    numbers = [c for c in COLUMNS if c not in {*POINT, "variant", "metric"}]
    summary = _known({key: line[key] for key in numbers})
    summary |= _known(
        {label: line["score"], f"{label}_low": line["score_low"], f"{label}_high": line["score_high"]}
    )
    throttle = "" if first["bandwidth"] == "none" else f", {first['bandwidth']}"
    name = f"{line['variant']}, ρ = {first['rho']:g}{throttle}, {dataset}, {model}"
    if rows["predicted"].eq(True).any():  # a cost model's numbers never look like measured ones
        config["predicted"], name = True, f"PREDICTED {name}"
    return Mirrored(cell, name[:NAME_LENGTH], "cell", config, steps, summary)


def _folder(identity: str, frame: pd.DataFrame, info: dict[str, Any], path: Path) -> Mirrored:
    # under the plain name: rows compressed later are the same rows
    files = {ROWS: content(rows_file(path)), "run.json": (path / "run.json").read_bytes()}
    sha256 = {name: hashlib.sha256(held).hexdigest() for name, held in files.items()}
    counts = {f"n_{status}": int(n) for status, n in frame["status"].value_counts().items()}
    shaken, told, again = disturbed_share(frame)
    quiet: dict[str, Any] = {"n_requests_timed_again": again}
    if told:
        quiet |= {"n_requests_disturbed": shaken, "share_disturbed": shaken / told}
    stated = {"conditions": conditions(frame, info), "distrust": distrust(info)}
    summary = {
        "n_rows": len(frame),
        "n_cells": int(frame["cell"].nunique()),
        **counts,
        **quiet,
        **{k: v for k, v in stated.items() if v},
    }
    panels = [[str(m), str(d)] for m, d in frame[PANEL].drop_duplicates().itertuples(index=False)]
    config = {key: value for key, value in info.items() if key != "profiles"}
    name = f"{info.get('experiment', 'run')}-{info.get('profile', '')} {identity}"
    return Mirrored(
        f"folder-{identity}", name[:NAME_LENGTH], "folder",
        config | {"files_sha256": sha256, "panels": panels, "panel": FOLDER}, [], summary,
    )  # fmt: skip


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """What is known of them: None, NaN and infinities left out, NumPy's scalars as Python's."""
    kept = {}
    for key, value in values.items():
        plain = value.item() if hasattr(value, "item") else value
        if plain is None or (isinstance(plain, float) and not math.isfinite(plain)):
            continue
        kept[key] = plain
    return kept
