"""The reports of a finished run: figures, summary, terminal table."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.errors import UserError
from bench.figures import fig10, fig11
from bench.results.reader import read_rows, read_run_info
from bench.results.summary import summarise, write_summary_csv
from bench.results.table import print_table


def write_reports(run: Path, out: Path, console: Console) -> list[Path]:
    """Write fig10 and fig11 (png, svg) and summary.csv into `out`, print the table to `console`.

    Reads the run's folder only; returns the paths written. Raises `UserError` where the run has
    no rows or cannot be read.
    """
    frame, run_info = read_rows(run), read_run_info(run)
    if frame.empty:
        raise UserError(f"{run / 'rows.jsonl'}: holds no row; run the experiment first")
    summary = summarise(frame)
    print_table(frame, run_info, console, summary)
    return [
        *fig10.plot(frame, run_info, out, summary),
        *fig11.plot(frame, run_info, out),
        write_summary_csv(frame, out / "summary.csv", summary),
    ]
