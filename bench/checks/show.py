"""The checks' tables on the terminal."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from bench.assets.models import resolve
from bench.checks import kernels, speed
from bench.checks.fusion import equivalence, fig10_cell
from bench.engine.engine import Engine
from bench.errors import UserError
from bench.runners.run import tokenizer_of


def stand_of(name: str, context: int, console: Console, dtype: str = "float32") -> speed.Stand:
    """A model, loaded, and a request of random tokens."""
    model = resolve(name, console.print)
    pool = 2 * context + 4096
    return speed.Stand(model, Engine(model.path, dtype, pool), tokenizer_of(model), context)


def check_speed(models: list[str], rounds: int, console: Console) -> None:
    """Print recompute cost and overlap of each model, 2,000 context tokens, fp32, as they are measured."""
    for name in models:
        stand = stand_of(name, 2000, console)
        cost = Table("rho", "TTFT (s)", "full prefill (s)", "ratio", "ratio of operations", "over", box=None)
        for r in speed.recompute_cost(stand, rounds):
            numbers = (r.ttft_s, r.full_s, r.ratio, r.flops_ratio)
            cost.add_row(f"{r.rho:g}", *(f"{x:.3f}" for x in numbers), f"{r.over:.2f}")
        console.print(f"{name}: EPIC in warm memory against full prefill; over: 1 is as the operations say")
        console.print(cost)
        hidden = Table(
            "method", "store (MB/s)", "select", "compute", "load", "pipelined", "over", "one by one", box=None
        )
        for o in speed.overlap(stand, Path.cwd(), ["epic", "qcfuse", "prophetkv"], 0.3, rounds):
            hidden.add_row(
                o.method, f"{o.bytes_per_s / 1e6:.1f}",
                *(f"{x:.2f}" for x in (o.select_s, o.compute_s, o.load_s, o.pipelined_s)),
                f"{o.over:.2f}", f"{o.one_by_one_s:.2f}",
            )  # fmt: skip
        console.print(
            f"{name}: loading as long as computing, rho 0.3, seconds; "
            "over: pipelined / (max(load, compute) + select)"
        )
        console.print(hidden)


def check_gpu(model_name: str, console: Console) -> bool:
    """Print ceilings, kernels, equivalence and one Fig. 10 cell; returns whether all was right."""
    if not torch.cuda.is_available():
        raise UserError("no CUDA device answers here; check-gpu is for a machine with an NVIDIA GPU")
    limits = kernels.ceilings()
    console.print(
        f"{torch.cuda.get_device_name()}: {limits.tflops:.0f} TFLOP/s bf16, "
        f"{limits.gbytes:.0f} GB/s in memory, {limits.upload_gbytes:.1f} GB/s from the host",
        highlight=False,
    )
    table = Table("kernel", "error", "right", "ms", "torch (ms)", "rate", "of the ceiling", box=None)
    checks = kernels.kernel_checks(limits)
    for c in checks:
        table.add_row(
            c.name, f"{c.error:.1e}", "yes" if c.right else "NO", f"{c.ms:.3f}", f"{c.reference_ms:.3f}",
            f"{c.rate:.0f} {c.unit}", f"{c.rate / c.ceiling:.0%}",
        )  # fmt: skip
    console.print(table)
    stand = stand_of(model_name, 10_240, console, "bfloat16")
    same = equivalence(stand.engine, [c[:64] for c in stand.request.chunks[:4]], stand.request.query)
    console.print(
        f"logits off full prefill's: {same.everything:.3g} with everything recomputed, "
        f"{same.exact:.3g} with an exact cache, {same.stale:.3g} with stale ones: "
        + ("right" if same.right else "WRONG"),
        highlight=False,
    )
    cell = Table("method", "TTFT (ms)", "select", "load", "recompute", "first token", box=None)
    for name, row in fig10_cell(stand, kernels.RHO).items():
        parts = ("ttft_s", "select_s", "load_s", "recompute_s", "first_token_s")
        cell.add_row(name, *(f"{row[part] * 1e3:.1f}" for part in parts))
    console.print(
        f"{model_name}, 20 x 512 tokens, rho {kernels.RHO:g}, caches in host memory", highlight=False
    )
    console.print(cell)
    return same.right and all(c.right for c in checks)
