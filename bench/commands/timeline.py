"""`qcbench timeline`: what ran when for one request."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder, names


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    timeline = commands.add_parser("timeline", help="draw what ran when for one request, and write a trace")
    timeline.add_argument("run", type=Path, help="run folder")
    timeline.add_argument("--request", help="id of a recorded request (default: the first)")
    timeline.add_argument("--model", help="default: the first recorded")
    timeline.add_argument("--dataset", help="default: the first recorded")
    timeline.add_argument(
        "--method", type=names, default=[], help="names, such as epic,qcfuse (default: all)"
    )
    timeline.add_argument("--bandwidth", help="as in the rows, such as 1.5x (default: the slowest)")
    timeline.add_argument("--rho", type=float, help="default: the lowest")
    timeline.add_argument("--out", type=Path, help="default: reports/NAME OF THE RUN FOLDER")
    timeline.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.results.recorded import Wanted
    from bench.results.report_timeline import write_timeline

    wanted = Wanted(args.request, args.model, args.dataset, args.method, args.bandwidth, args.rho)
    out = args.out or Path("reports") / args.run.name
    check_folder(out, "--out")
    write_timeline(args.run, wanted, out, console)
    return 0
