"""qcbench compare: a new method beside all others, on a finished run's requests."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    compare = commands.add_parser(
        "compare", help="measure a new method on a finished run's requests and put it beside all others"
    )
    compare.add_argument("method", help='FILE.py, or "FILE.py[param=value,...]"')
    compare.add_argument("--experiment", default="fig10")
    compare.add_argument("--profile", default="smoke", help="of the run to compare with (default: smoke)")
    compare.add_argument(
        "--run",
        type=Path,
        help="the finished run (default: results/EXPERIMENT-PROFILE, made where it is missing)",
    )
    compare.add_argument(
        "--out",
        type=Path,
        help="folder of the page (default: reports/compare-NAME, with parameters reports/compare-NAME-HASH)",
    )
    compare.add_argument("--fresh", action="store_true", help="measure the method again, dropping its rows")
    compare.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.assets import cache
    from bench.compare.measure import compare

    run = args.run or Path("results") / f"{args.experiment}-{args.profile}"
    cache.check()
    check_folder(args.out or Path("reports"), "--out")
    check_folder(run.parent, "--run")
    return compare(
        args.method, run,
        args.experiment, args.profile, args.out, console, args.fresh,
    )  # fmt: skip
