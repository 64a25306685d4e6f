"""The reports of a finished run: which experiment has which figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench.errors import UserError
from bench.results import report_bandwidth, report_quality, report_stages, report_timeline, report_variants
from bench.results.reader import read_rows, read_run_info
from bench.results.run_folder import RunFolder

Report = Callable[[RunFolder, Path, Console], list[Path]]

REPORTS: dict[str, Report] = {
    "fig01": report_stages.write,
    "fig09": report_timeline.write,
    "fig10": report_quality.write,
    "fig13": report_bandwidth.write,
    "faithfulness": report_variants.write,
}
"""By experiment, as `run.json` names it; any other has what fig10 has."""


def write_reports(run: Path, out: Path, console: Console) -> list[Path]:
    """Write the figures and tables of the run's experiment into `out`, print its tables to `console`.

    Reads the run's folder only; returns the paths written. Raises `UserError` where the run has
    no rows or cannot be read.
    """
    return write_figures(open_run(run), out, console)


def open_run(run: Path) -> RunFolder:
    """Read a finished run. Raises `UserError` where it has no rows or cannot be read."""
    frame, run_info = read_rows(run), read_run_info(run)
    if frame.empty:
        raise UserError(f"{run / 'rows.jsonl'}: holds no row; run the experiment first")
    return RunFolder(run, frame, run_info)


def write_figures(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """As `write_reports`, of a run that was read."""
    return REPORTS.get(str(run.info.get("experiment")), report_quality.write)(run, out, console)
