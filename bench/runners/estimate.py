"""What a run will cost: time from counted operations and a short measurement, disk from counts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.runners.plan import Cell

ROW_BYTES = 1500
"""A row of `rows.jsonl`, seen on smoke runs."""


@dataclass(frozen=True)
class Estimate:
    """Minutes of wall time and megabytes of disk."""

    minutes: float
    disk_mb: float


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


def _weights(path: Path) -> int:
    """Weights of the decoder layers, from the configuration."""
    config = json.loads((path / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    kv = config.get("num_key_value_heads", config["num_attention_heads"]) * head
    attention = hidden * (2 * config["num_attention_heads"] * head + 2 * kv)
    return int(config["num_hidden_layers"] * (attention + 3 * hidden * inner))


def estimate(blocks: Sequence[tuple[Path, Sequence[int], Sequence[Cell], int]], dtype: str) -> Estimate:
    """Cost of blocks (model folder, prompt lengths, cells, new tokens of an answer).

    Prefill at half the matrix product's rate; a cell costs its rho plus a tenth, full-view selection
    and preparation three prefills a request; decoding reads all weights once a step, two answers in
    three ending early. Coarse on purpose: within a factor of two on the machines seen.
    """
    speed = _flops_per_second(getattr(torch, dtype)) / 2
    seconds, rows = 60.0 * len({path for path, *_ in blocks}), 0  # loading, profile and warm-up
    for path, lengths, cells, new_tokens in blocks:
        weights = _weights(path)
        work = sum(min(1.0, cell.rho + 0.1) for cell in cells) + 3
        prefill = sum(2 * weights * n for n in lengths) / speed
        step = 2 * weights * min(len(cells), 32) / speed + 0.05
        seconds += work * prefill + len(lengths) * step * new_tokens * 2 / 3
        rows += len(lengths) * len(cells)
    return Estimate(seconds / 60, rows * ROW_BYTES / 1e6)
