"""The plan of a run: cells, their keys, and the requests of each model and dataset."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bench.bandwidth import Bandwidth
from bench.experiments import Sweep, Task
from bench.methods import NamedMethod
from bench.request import Request


@dataclass(frozen=True)
class Cell:
    """One operating point: model x dataset x method(parameters) x rho x bandwidth."""

    key: str
    model: str
    dataset: str
    method: NamedMethod
    rho: float
    bandwidth: Bandwidth


def canonical(value: Any) -> str:
    """Canonical JSON: what hashes are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def cells_of(
    sweep: Sweep,
    model: str,
    revision: str,
    dtype: str,
    task: Task,
    label: str,
    task_sha256: str,
    methods: Sequence[NamedMethod],
) -> list[Cell]:
    """The cells of a model and a dataset.

    `label` is what rows call the dataset. A method with a fixed rho has that one; one that reads no cache is
    not throttled.
    """
    cells = []
    for method in methods:
        fixed = method.method.nominal(sweep.chunks, sweep.chunk_tokens)
        ratios = sweep.rho if fixed is None else [fixed]
        bandwidths = sweep.bandwidth if method.method.uses_cache else ["none"]
        for rho, bandwidth in product(ratios, bandwidths):
            config = {
                "model": revision, "dtype": dtype, "dataset": task.name, "options": task.options,
                "dataset_source": task_sha256, "method": method.name, "method_identity": method.identity,
                "rho": rho, "chunks": sweep.chunks, "chunk_tokens": sweep.chunk_tokens, "seed": sweep.seed,
                "calibration": [sweep.calibration, sweep.calibration_set.model_dump()],
                "store": sweep.store, "chunk_prefix": sweep.chunk_prefix, "bandwidth": bandwidth,
                "throttle": sweep.throttle, "read_latency_ms": sweep.read_latency_ms,
                "overlap": sweep.overlap,
            }  # fmt: skip
            key = hashlib.sha256(canonical(config).encode()).hexdigest()[:16]
            cells.append(Cell(key, model, label, method, float(rho), Bandwidth.of(bandwidth)))
    return cells


def interleaved(cells: Sequence[Cell], request: Request, seed: int) -> list[Cell]:
    """The cells in the random order in which they are measured on this request."""
    order = list(cells)
    random.Random(f"{seed}:{request.sha256}").shuffle(order)
    return order


def source_sha256(module_file: str) -> str:
    """Hash of a plug-in's source."""
    return hashlib.sha256(Path(module_file).read_bytes()).hexdigest()
