"""Synthetic rows for tests. Invented numbers: they never leave a temporary folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.results.reader import read_rows
from bench.results.schema import Row

FUSION = ("cacheblend", "epic", "fusionrag", "prophetkv", "qcfuse", "random_tokens")
GAIN = {"cacheblend": 0.4, "epic": 0.3, "fusionrag": 0.5, "prophetkv": 1.3, "qcfuse": 1.25}
COST = {"prophetkv": 0.34, "qcfuse": 0.06, "fusionrag": 0.05, "cacheblend": 0.04}


def make_row(**fields: Any) -> Row:
    """One row with everything that a test does not care about filled in."""
    base: dict[str, Any] = {
        "cell": "0" * 16,
        "model": "model-a",
        "dataset": "multihop",
        "method": "qcfuse",
        "rho": 0.3,
        "chunks": 4,
        "chunk_tokens": 128,
        "request": "r0",
        "metric": "f1",
        "score": 0.5,
        "ttft_s": 1.0,
        "select_s": 0.1,
        "load_s": 0.2,
        "recompute_s": 0.3,
        "first_token_s": 0.4,
    }
    return Row(**(base | fields))


def frame_of(rows: Sequence[Row], folder: Path) -> pd.DataFrame:
    """The rows as the reader gives them: written to `folder` and read back."""
    write_run(rows, folder)
    return read_rows(folder)


def write_run(rows: Sequence[Row], folder: Path, info: dict[str, Any] | None = None) -> Path:
    """A run's folder with these rows and, where given, this `run.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
    if info is not None:
        (folder / "run.json").write_text(json.dumps(info), "utf-8")
    return folder


def point(scores: Sequence[float], ttfts: Sequence[float], **fields: Any) -> list[Row]:
    """An operating point: request i has the i-th score and TTFT."""
    pairs = zip(scores, ttfts, strict=True)
    return [
        make_row(request=f"r{i}", score=score, ttft_s=ttft, **fields) for i, (score, ttft) in enumerate(pairs)
    ]


def grid(
    models: Sequence[str] = ("model-a",),
    datasets: Sequence[str] = ("multihop", "ruler/mq", "ruler/vt"),
    rhos: Sequence[float] = (0.1, 0.3, 0.5),
    n: int = 12,
    seed: int = 0,
    methods: Sequence[str] = FUSION,
) -> list[Row]:
    """A run of full prefill, direct reuse and `methods` with the shape of the paper's Fig. 10."""
    rng = np.random.default_rng(seed)
    points = [("full_prefill", 1.0), ("direct_reuse", 0.0), *((m, rho) for m in methods for rho in rhos)]
    rows = []
    for m, model in enumerate(models):
        for dataset in datasets:
            needles = dataset.startswith("ruler")
            best, floor = (0.9, 0.4) if needles else (0.55, 0.2)
            ease = rng.normal(0, 0.1, n)
            for method, rho in points:
                share = min(1.0, rho * GAIN.get(method, 0.2) * 1.6) if 0 < rho < 1 else rho
                quality = np.clip(floor + (best - floor) * share + ease + rng.normal(0, 0.05, n), 0, 1)
                if needles:
                    quality = np.round(quality * 4) / 4
                cost = (1 + m) * (0.15 + 0.85 * rho + COST.get(method, 0.02) * (rho < 1))
                ttft = cost * rng.lognormal(0, 0.04, n)
                metric = "string_match" if needles else "f1"
                fields = {"model": model, "dataset": dataset, "method": method, "rho": rho, "metric": metric}
                rows += point(list(quality), list(ttft), **fields)
    return rows
