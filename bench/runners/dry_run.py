"""What a run would measure and cost, without measuring it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from bench.runners.estimate import Cost, Estimate, estimate

if TYPE_CHECKING:
    from bench.runners.run import Plan


def show_estimate(the_plan: Plan, console: Console) -> None:
    """Print a run's cells, requests, disk and time."""
    cost = _estimate_of(the_plan)
    cells = sum(len(b.cells) for b in the_plan.blocks)
    requests = sum(len(b.cells) * len(b.requests) for b in the_plan.blocks)
    for block in the_plan.blocks:
        tokens = [len(r.ids) for r in block.requests]
        console.print(
            f"{block.model.name} x {block.task}: {len(block.cells)} cells, {len(block.requests)} requests "
            f"of {min(tokens)} to {max(tokens)} tokens", highlight=False, markup=False,
        )  # fmt: skip
    console.print(
        f"{cells} cells, {requests} measured requests, {the_plan.dtype}; "
        f"about {cost.disk_mb:.0f} MB on disk, about {cost.minutes:.0f} minutes here", highlight=False,
    )  # fmt: skip


def _estimate_of(the_plan: Plan) -> Estimate:
    """The cost of a whole run, from its counts and a short measurement of this machine."""
    blocks = [
        Cost(b.model.path, [len(r.ids) for r in b.requests], b.cells, b.requests[0].max_new_tokens,
             sum({chunk: len(chunk) for r in b.requests for chunk in r.chunks}.values()))
        for b in the_plan.blocks
    ]  # fmt: skip
    return estimate(blocks, the_plan.dtype, on_disk=the_plan.sweep.store == "disk")
