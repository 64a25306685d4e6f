"""`qcbench claims`: the paper's claims, held against runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.errors import UserError


def add(commands: Any) -> None:
    """Add the command's arguments."""
    claims = commands.add_parser("claims", help="hold the paper's claims against the rows of runs")
    claims.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    claims.add_argument("--json", action="store_true", help="print JSON instead of a table")
    claims.add_argument(
        "--power", action="store_true", help="of each run, how many requests each claim needs"
    )
    claims.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.claims import judge
    from bench.claims.table import as_json, print_power, print_verdicts
    from bench.results.points import alarms
    from bench.results.reader import read_rows, read_run_info
    from bench.results.run_folder import RunFolder

    runs = [RunFolder(path, read_rows(path), read_run_info(path)) for path in args.runs]
    for run in runs:
        if run.frame.empty:
            raise UserError(f"{run.path}: holds no row; run the experiment first")
    if args.power:
        if args.json:
            raise UserError("--power prints a table; with --json every verdict has its `needed` anyway")
        for run in runs:
            print_power(run.path.name, judge([run]), console)
        return 0
    verdicts = judge(runs)
    found = [f"{run.path.name}: {alarm}" for run in runs for alarm in alarms(run.frame)]
    if args.json:
        print(as_json(verdicts, found))
    else:
        print_verdicts(verdicts, found, console)
    return 0
