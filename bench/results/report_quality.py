"""The report of fig10, and of any experiment without one of its own: quality against TTFT over rho."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.figures import best, fig10, fig11, ratio
from bench.results.all_metrics import write_metrics_csv
from bench.results.best_table import print_best
from bench.results.run_folder import RunFolder
from bench.results.shown import long_instructions
from bench.results.summary import write_summary_csv
from bench.results.table import print_remarks, print_table


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write fig10 and fig11 (png, svg), summary.csv and metrics.csv into `out`, and what else its
    rows can tell (`bench.figures.ratio`, `bench.figures.best`); print the tables."""
    summary = run.summary
    print_table(run.frame, run.info, console, summary, run.matched)
    print_best(*run.best, console)
    print_remarks(run.frame, run.info, console)
    for dataset, note in long_instructions(run.path).items():
        console.print(f"{dataset}: {note}", markup=False)
    return [
        *fig10.plot(run.frame, run.info, out, summary),
        *ratio.plot(run.frame, run.info, out, summary),
        *best.plot(run.best[0], run.frame, run.info, out),
        *fig11.plot(run.frame, run.info, out),
        write_summary_csv(run.frame, out / "summary.csv", summary),
        write_metrics_csv(run.frame, out / "metrics.csv"),
    ]
