"""What a run will cost: time from counted operations and a short measurement, disk from counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.flops import ModelShape
from bench.runners.plan import Cell

ROW_BYTES = 1500
"""A row of `rows.jsonl`, seen on smoke runs."""


@dataclass(frozen=True)
class Estimate:
    """Minutes of wall time and megabytes of disk."""

    minutes: float
    disk_mb: float


@dataclass(frozen=True)
class Cost:
    """Of a model and a dataset: prompt lengths, cells, new tokens an answer, distinct chunk tokens."""

    path: Path
    lengths: Sequence[int]
    cells: Sequence[Cell]
    new_tokens: int
    chunk_tokens: int


def _flops_per_second(dtype: torch.dtype) -> float:
    """What a matrix product of a model's size reaches here, the best of a few."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(512, 1024, device=device).to(dtype)
    b = torch.randn(1024, 4096, device=device).to(dtype)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        float((a @ b)[0, 0])
        best = min(best, time.perf_counter() - began)
    return 2 * 512 * 1024 * 4096 / best


def _work(cell: Cell, unit: float) -> float:
    """A cell's time in full prefills: its rho and a tenth, or its loads where they take longer."""
    rate = cell.bandwidth.resolve(unit)
    return max(min(1.0, cell.rho + 0.1), 0.0 if rate is None else unit / rate)


def estimate(blocks: Sequence[Cost], dtype: str, on_disk: bool) -> Estimate:
    """Time and disk of a run.

    Prefill at half the matrix product's rate; a cell costs its rho plus a tenth, or its throttled loads
    where they take longer, full-view selection and preparation three prefills a request; decoding reads
    all weights once a step, two answers in three ending early. Coarse on purpose: within a factor of two
    on the machines seen. On disk: rows, and in the disk tier every chunk's cache with a tenth more for
    anchors.
    """
    kind = getattr(torch, dtype)
    speed = _flops_per_second(kind) / 2
    # loading, profile and warm-up
    seconds = 60.0 * len({block.path for block in blocks})
    disk = 0.0
    for block in blocks:
        shape = ModelShape.of(block.path)
        prefill = sum(2 * shape.weights * n for n in block.lengths) / speed
        whole = shape.cached_numbers * kind.itemsize * sum(block.lengths)
        work = sum(_work(cell, whole / prefill) for cell in block.cells) + 3
        step = 2 * shape.weights * min(len(block.cells), 32) / speed + 0.05
        seconds += work * prefill + len(block.lengths) * step * block.new_tokens * 2 / 3
        disk += len(block.lengths) * len(block.cells) * ROW_BYTES
        if on_disk:
            disk += 1.1 * block.chunk_tokens * shape.cached_numbers * kind.itemsize
    return Estimate(seconds / 60, disk / 1e6)
