"""`qcbench report`: figures, tables and one page of finished runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder, last_line


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    report = commands.add_parser("report", help="figures, tables and one page (index.html) of finished runs")
    report.add_argument("run", type=Path, nargs="+", help="run folders; claims are judged over all of them")
    report.add_argument("--out", type=Path, help="default: reports/NAME OF THE FIRST RUN, below results/")
    report.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.reports.write import write_report

    runs: list[Path] = args.run
    out = args.out or Path("reports") / _name(runs[0])
    check_folder(out, "--out")
    last_line(write_report(runs, out, console), console)
    return 0


def _name(run: Path) -> str:
    """results/a is "a" and results/sample/a "sample-a": the page of one shall not replace the other's."""
    *above, name = run.resolve().parts
    below = above[len(above) - above[::-1].index("results") :] if "results" in above else []
    return "-".join([*below, name])
