"""The report of fig01: where the time to first token goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figures import fig01
from bench.figures.style import order, variant_label
from bench.results.points import PANEL, spread
from bench.results.run_folder import RunFolder
from bench.results.stages import stages, write_csv
from bench.results.summary import write_summary_csv
from bench.results.table import print_remarks, seconds

SHOWN = ("select", "select_wait", "load", "recompute", "first_token")


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write fig01 (png, svg), stages.csv and summary.csv into `out`, print the tables to `console`."""
    lines, tables = write_stages(run, out, console)
    return [*fig01.plot(run.frame, run.info, out, lines), *tables]


def write_stages(run: RunFolder, out: Path, console: Console) -> tuple[pd.DataFrame, list[Path]]:
    """Print the stages, write stages.csv and summary.csv into `out`; the stages and the paths."""
    lines = stages(run.frame)
    print_stages(lines, console)
    print_remarks(run.frame, run.info, console)
    return lines, [
        write_csv(lines, out / "stages.csv"),
        write_summary_csv(run.frame, out / "summary.csv"),
    ]


def print_stages(lines: pd.DataFrame, console: Console) -> None:
    """Print, for each model and dataset, the mean of every stage and its share of TTFT."""
    # side by side, or one under the other in a narrow terminal
    between = " " if console.width >= 95 else "\n"
    for (model, dataset), some in lines.groupby(PANEL):
        title = f"{model}, {dataset}: mean TTFT by stage, n = {spread(some['n'])} requests"
        table = Table(title=escape(title), title_justify="left")
        table.add_column("method", no_wrap=True, overflow="ellipsis", max_width=24)
        for name in ("TTFT", "select", "waiting", "load", "recompute", "first token"):
            table.add_column(name, justify="right")
        for method in order(some["method"].unique()):
            for line in some[some["method"] == method].to_dict("records"):
                table.add_row(
                    escape(variant_label(method, line["variant"])),
                    seconds(line["ttft_s"]),
                    *(_part(line, part, between) for part in SHOWN),
                )
        console.print(table)
    note = "Means over requests; %: share of the mean TTFT; waiting: the part of select that waits for loads."
    console.print(note, style="dim", markup=False)


def _part(line: dict[Any, Any], part: str, between: str) -> str:
    if pd.isna(line[f"{part}_s"]):
        return "-"
    return f"{seconds(line[f'{part}_s'])}{between}{line[f'{part}_share']:.0%}"
